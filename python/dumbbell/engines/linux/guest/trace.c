// Captures headers in the guest for `dumbbell trace`, next to guest.c, which measures and does not know of it.
//
//   trace SPACE DEVICE arriving|leaving|all FILE ...    as often as wanted; returns once everything is captured
//
// Another process, so that a run without it is the same run, and a program of its own, so that results need not be measured again when this
// changes. It never reads the clock, which takes virtual time: it waits for full blocks and writes them. What it cannot do is in the file
// `failed`, as of guest.c. Records are little-endian; crates/dumbbell-packets/src/captured/record.rs reads them.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

// headers of Ethernet and IPv4, and the longest of TCP, take 94 B
enum { BLOCK = 1 << 18, BLOCKS = 16, SNAP = 96, MOST = 256 };

struct record {
    uint64_t time;  // ns since 1970
    uint32_t length;
    uint8_t kept, outgoing, unused[2];
    uint8_t bytes[SNAP];
};
_Static_assert(sizeof(struct record) == 112, "as record.rs reads it");

struct capture {
    int socket, file, next;
    unsigned char *ring;
};
static struct capture captures[MOST];
static int count;

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void fail(const char *format, ...) {
    FILE *out = fopen("failed", "w");
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (out) {
        fprintf(out, "trace: %s", text);
        fclose(out);
    }
    fputs(text, stderr);
    exit(1);
}

static void enter(const char *space) {
    char path[64];
    snprintf(path, sizeof path, "/run/netns/%s", space);
    int file = open(path, O_RDONLY);
    if (file < 0 || setns(file, CLONE_NEWNET)) fail("network namespace %s: %s", space, strerror(errno));
    close(file);
}

static void open_capture(const char *space, const char *device, const char *which, const char *name) {
    if (count == MOST) fail("more than %d captures", MOST);
    struct capture *one = &captures[count++];
    one->file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (one->file < 0) fail("%s: %s", name, strerror(errno));
    enter(space);
    one->socket = socket(AF_PACKET, SOCK_RAW, 0);  // no protocol: nothing is captured before bind
    uint32_t arriving = strcmp(which, "leaving") ? PACKET_HOST : PACKET_OUTGOING;
    uint32_t leaving = strcmp(which, "arriving") ? PACKET_OUTGOING : PACKET_HOST;
    // IPv4 packets of these directions
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, arriving, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, leaving, 0, 3),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SNAP),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    int version = TPACKET_V3;
    struct tpacket_req3 ring = {.tp_block_size = BLOCK,
                                .tp_block_nr = BLOCKS,
                                .tp_frame_size = 2048,
                                .tp_frame_nr = BLOCK / 2048 * BLOCKS,
                                .tp_retire_blk_tov = 200};
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = if_nametoindex(device)};
    // index 0 would be every device
    if (one->socket < 0 || !address.sll_ifindex || setsockopt(one->socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) ||
        setsockopt(one->socket, SOL_PACKET, PACKET_VERSION, &version, sizeof version) ||
        setsockopt(one->socket, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring) ||
        (one->ring = mmap(0, (size_t)BLOCK * BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED, one->socket, 0)) == MAP_FAILED ||
        bind(one->socket, (void *)&address, sizeof address))
        fail("%s in %s: %s", device, space, strerror(errno));
}

static void put(int file, const void *bytes, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t wrote = write(file, (const char *)bytes + done, length - done);
        if (wrote < 0) fail("%s", strerror(errno));
        done += (size_t)wrote;
    }
}

// Writes the blocks that are full. At once: the guest is switched off some time after the run, and does not ask.
static void take(struct capture *one) {
    static struct record records[BLOCK / SNAP];
    for (;;) {
        struct tpacket_block_desc *block = (void *)(one->ring + (size_t)one->next * BLOCK);
        if (!(__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) break;
        const struct tpacket3_hdr *header = (void *)((unsigned char *)block + block->hdr.bh1.offset_to_first_pkt);
        uint32_t packets = block->hdr.bh1.num_pkts;
        for (uint32_t i = 0; i < packets; i++) {
            const struct sockaddr_ll *from = (void *)((unsigned char *)header + TPACKET_ALIGN(sizeof *header));
            records[i] = (struct record){.time = header->tp_sec * 1000000000ULL + header->tp_nsec,
                                         .length = header->tp_len,
                                         .kept = (uint8_t)header->tp_snaplen,
                                         .outgoing = from->sll_pkttype == PACKET_OUTGOING};
            memcpy(records[i].bytes, (unsigned char *)header + header->tp_mac, header->tp_snaplen);
            header = (const void *)((const unsigned char *)header + header->tp_next_offset);
        }
        __atomic_store_n(&block->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        one->next = (one->next + 1) % BLOCKS;
        put(one->file, records, packets * sizeof *records);
    }
    struct tpacket_stats_v3 lost;
    socklen_t length = sizeof lost;
    if (getsockopt(one->socket, SOL_PACKET, PACKET_STATISTICS, &lost, &length)) fail("%s", strerror(errno));
    if (lost.tp_drops) fail("%u packets came faster than they were taken", lost.tp_drops);
}

int main(int argument_count, char **arguments) {
    static struct pollfd polled[MOST];
    int ready[2];
    char byte = 0;
    if (pipe(ready)) fail("%s", strerror(errno));
    // before there are rings: in User-Mode Linux a child sees zeros in those of its parent
    pid_t child = fork();
    if (child < 0) fail("%s", strerror(errno));
    if (child > 0) {
        close(ready[1]);
        return read(ready[0], &byte, 1) != 1;  // everything is captured from now on, or nothing
    }
    for (int i = 1; i + 3 < argument_count; i += 4) open_capture(arguments[i], arguments[i + 1], arguments[i + 2], arguments[i + 3]);
    for (int i = 0; i < count; i++) polled[i] = (struct pollfd){.fd = captures[i].socket, .events = POLLIN};
    put(ready[1], &byte, 1);
    close(ready[0]);
    close(ready[1]);
    while (poll(polled, (nfds_t)count, -1) >= 0 || errno == EINTR)
        for (int i = 0; i < count; i++)
            if (polled[i].revents) take(&captures[i]);
    fail("poll: %s", strerror(errno));
}
