// The first and only program in the guest: sets up the network that its plan describes, sends, receives, captures on both
// sides of the queue, and switches the guest off.
//
//   guest keep KERNEL ARGUMENTS...   on the host: runs the guest and sees to its end
//   guest FOLDER                     in the guest: reads FOLDER/plan (see read_plan); writes samples, for each hop arrived, sent and counters
//                                    (behind the first hop with its number: arrived.1), what the plan has shown, and failed or done
//
// Everything happens in one process with one epoll: a socket stays in the network namespace in which it was made. Times of the
// plan are ns from the start of the run. Records are little-endian; crates/dumbbell-measure/src/from_capture.rs reads them.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <math.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FIRST_PORT 10000     // a sender's port is this plus its number, by which captures tell flows apart
#define MOST_HOPS 64         // route.rs: MAX_HOPS
#define POLL_NS 200000000    // between samples: ss and Flent poll TCP_INFO every 200 ms
#define NEVER INT64_MAX

enum { START = 1, POLL = 2, END = 8, COMPLETE = 16, ANSWER = 32 };  // flags of a sample

static void off(void) {
    sync();
    reboot(RB_POWER_OFF);
    _exit(1);  // not in a guest
}

// Says in one line why there is no result, and ends.
static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void fail(const char *format, ...) {
    FILE *out = fopen("failed", "w");
    va_list arguments;
    va_start(arguments, format);
    if (out) {
        vfprintf(out, format, arguments);
        fclose(out);
    }
    va_end(arguments);
    off();
    _exit(1);
}

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int64_t started;  // CLOCK_MONOTONIC at the start of the run
static int64_t elapsed(void) { return clock_ns(CLOCK_MONOTONIC) - started; }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static uint64_t random_state;
static double uniform(void) {  // splitmix64, in [0, 1)
    uint64_t z = (random_state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

// Output files, written in large pieces.

struct output {
    char name[32];
    int file;
    size_t used;
    unsigned char bytes[1 << 19];
};
static struct output samples = {.name = "samples"};

static void flush(struct output *out) {
    for (size_t done = 0; done < out->used;) {
        ssize_t wrote = write(out->file, out->bytes + done, out->used - done);
        if (wrote < 0) fail("%s: %s", out->name, strerror(errno));
        done += wrote;
    }
    out->used = 0;
}

static void open_output(struct output *out) {
    out->file = open(out->name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (out->file < 0) fail("%s: %s", out->name, strerror(errno));
}

static void put(struct output *out, const void *record, size_t length) {
    if (out->used + length > sizeof out->bytes) flush(out);
    memcpy(out->bytes + out->used, record, length);
    out->used += length;
}

// Commands of the plan.

// Runs a command; its output goes to the log, or to `file`. What it says goes into the message if it fails.
static void command(const char *text, const char *file) {
    char line[8192];
    snprintf(line, sizeof line, "{ %s\n} >%s 2>said", text, file ? file : "/dev/null");
    if (system(line) == 0) return;
    char said[300] = "";
    FILE *in = fopen("said", "r");
    size_t length = in ? fread(said, 1, sizeof said - 1, in) : 0;
    while (length > 0 && (unsigned char)said[length - 1] <= ' ') length--;
    said[length] = 0;
    for (char *c = said; *c; c++)
        if (*c == '\n') *c = ' ';
    fail("%s: %s", text, said);
}

static void enter(const char *space) {
    char path[64];
    snprintf(path, sizeof path, "/run/netns/%s", space);
    int file = open(path, O_RDONLY);
    if (file < 0 || setns(file, CLONE_NEWNET)) fail("network namespace %s: %s", space, strerror(errno));
    close(file);
}

static void offload(const char *space, const char *device, int tso, int gso, int gro, int mtu) {
    enter(space);
    int any = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq of_device = {0};
    snprintf(of_device.ifr_name, IFNAMSIZ, "%.15s", device);
    if (ioctl(any, SIOCGIFMTU, &of_device)) fail("MTU of %s: %s", device, strerror(errno));
    if (of_device.ifr_mtu != mtu) fail("hosts.mss: MTU of %s: asked %d, got %d", device, mtu, of_device.ifr_mtu);
    struct {
        uint32_t set;
        int value;
        uint32_t get;
        const char *name;
    } wanted[] = {{ETHTOOL_STSO, tso, ETHTOOL_GTSO, "TSO"}, {ETHTOOL_SGSO, gso, ETHTOOL_GGSO, "GSO"}, {ETHTOOL_SGRO, gro, ETHTOOL_GGRO, "GRO"}};
    size_t count = sizeof wanted / sizeof *wanted;
    for (size_t i = 0; i < 2 * count; i++) {  // set all of them, then read them back: one can switch another
        size_t which = i % count;
        struct ethtool_value value = {i < count ? wanted[which].set : wanted[which].get, wanted[which].value};
        struct ifreq request = {.ifr_data = (void *)&value};
        snprintf(request.ifr_name, IFNAMSIZ, "%.15s", device);
        if (ioctl(any, SIOCETHTOOL, &request)) fail("offloads of %s: %s", device, strerror(errno));
        if (value.data != (uint32_t)wanted[which].value)
            fail("hosts.offload: %s of %s: asked %d, got %u", wanted[which].name, device, wanted[which].value, value.data);
    }
    close(any);
}

// Captures: a ring in memory, so that no packet wakes this process by itself.

enum { BLOCK = 1 << 20, BLOCKS = 16, SNAP = 96 };

enum kind { TCP, UDP, LISTENER, RECEIVER, CAPTURE, TIMER, ECHO, ANSWERS };

struct endpoint {
    enum kind kind;
    int file;
};

struct capture {
    struct endpoint at;
    struct output out;
    int socket;
    unsigned char *ring;
    int next;
};
static struct capture *captures[2 * MOST_HOPS];  // ahead of the queues and behind them
static size_t capture_count;
static uint32_t mss;
static int receivers = 65536;  // the first port of receivers, if packets go back over hops

// The `number`th file of this name.
static void name_of(char *to, size_t size, const char *name, size_t number) {
    if (number) snprintf(to, size, "%s.%zu", name, number);
    else snprintf(to, size, "%s", name);
}

static void open_capture(bool ahead, const char *space, const char *device) {
    static size_t counts[2];
    int type = ahead ? PACKET_HOST : PACKET_OUTGOING;
    struct capture *one = calloc(1, sizeof *one);
    if (!one || counts[ahead] == MOST_HOPS) fail("no room for a capture");
    captures[capture_count++] = one;
    name_of(one->out.name, sizeof one->out.name, ahead ? "arrived" : "sent", counts[ahead]++);
    enter(space);
    open_output(&one->out);
    one->socket = socket(AF_PACKET, SOCK_RAW, 0);  // no protocol: nothing is captured before bind
    // IPv4 packets of one direction
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)type, 0, 3),
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
    if (one->socket < 0 || setsockopt(one->socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) ||
        setsockopt(one->socket, SOL_PACKET, PACKET_VERSION, &version, sizeof version) ||
        setsockopt(one->socket, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring) ||
        (one->ring = mmap(0, (size_t)BLOCK * BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED, one->socket, 0)) == MAP_FAILED ||
        bind(one->socket, (void *)&address, sizeof address))
        fail("capture on %s: %s", device, strerror(errno));
    one->at = (struct endpoint){CAPTURE, one->socket};
}

struct packet_record {
    uint64_t time;
    uint32_t flow, seq, len, payload;
    uint16_t id, gso_size;
    uint8_t ecn, back, unused[2];
};
_Static_assert(sizeof(struct packet_record) == 32, "as from_capture.rs reads it");

static void take_packet(struct capture *one, const struct tpacket3_hdr *header) {
    const unsigned char *ip = (const unsigned char *)header + header->tp_net;
    unsigned header_length = (ip[0] & 15) * 4u;
    const unsigned char *transport = ip + header_length;
    unsigned total = header->tp_len - ETH_HLEN;
    uint16_t port = transport[0] << 8 | transport[1];
    bool tcp = ip[9] == IPPROTO_TCP, back = port >= receivers;
    if (back) port = transport[2] << 8 | transport[3];
    if ((!tcp && ip[9] != IPPROTO_UDP) || port < FIRST_PORT) return;
    struct packet_record record = {.time = header->tp_sec * 1000000000ULL + header->tp_nsec,
                                   .flow = port - FIRST_PORT,
                                   .len = header->tp_len,
                                   .id = ip[4] << 8 | ip[5],
                                   .ecn = ip[1] & 3,
                                   .back = back};
    uint32_t seq;
    if (!tcp) {
        memcpy(&record.seq, transport + 8, 4);  // as send_udp numbers packets
    } else {
        memcpy(&seq, transport + 4, 4);
        record.seq = ntohl(seq);
        record.payload = total - header_length - (transport[12] >> 4) * 4u;
        record.gso_size = record.payload > mss ? mss : 0;
    }
    put(&one->out, &record, sizeof record);
}

static void take_packets(struct capture *one) {
    for (;;) {
        struct tpacket_block_desc *block = (void *)(one->ring + (size_t)one->next * BLOCK);
        if (!(__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) return;
        const struct tpacket3_hdr *header = (void *)((unsigned char *)block + block->hdr.bh1.offset_to_first_pkt);
        for (uint32_t i = 0; i < block->hdr.bh1.num_pkts; i++) {
            take_packet(one, header);
            header = (const void *)((const unsigned char *)header + header->tp_next_offset);
        }
        __atomic_store_n(&block->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        one->next = (one->next + 1) % BLOCKS;
    }
}

static void close_capture(struct capture *one) {
    take_packets(one);
    flush(&one->out);
    struct tpacket_stats_v3 lost;
    socklen_t length = sizeof lost;
    if (getsockopt(one->socket, SOL_PACKET, PACKET_STATISTICS, &lost, &length)) fail("capture: %s", strerror(errno));
    if (lost.tp_drops) fail("the capture lost %u packets, which come faster than its %d MB hold", lost.tp_drops, BLOCK / 1000000 * BLOCKS);
}

// Senders and receivers.

struct listener {
    struct endpoint at;
    struct sockaddr_in address;
    int tos;
    char cc[16], accepted[16];  // accepted: switched to after the handshake, "-" for none
};

struct sender {
    struct endpoint at;
    uint32_t number;
    int64_t start, stop, size, written;
    int tos;
    bool over, begun;
    struct sockaddr_in source, target;
    const char *space;  // its namespace
    char cc[16];
    double gap, due;  // of UDP, ns
    int payload;
    uint32_t sent;
    bool poisson, echo;
};

// The head of a packet of UDP, by which its answer is known.
struct __attribute__((packed)) udp_head {
    uint32_t number;
    int64_t sent_at;
};

struct answers {
    struct endpoint at;
    struct sender *of;
};

static struct sender *senders;
static size_t sender_count;
static int events_file;
static unsigned char data[131072];  // iperf3 writes 128 KB at a time

static void watch(struct endpoint *one, uint32_t events) {
    struct epoll_event event = {events, {.ptr = one}};
    if (epoll_ctl(events_file, EPOLL_CTL_ADD, one->file, &event)) fail("epoll: %s", strerror(errno));
}

static void set_cc(int file, const char *cc) {
    char got[16] = "";
    socklen_t length = sizeof got - 1;
    if (setsockopt(file, IPPROTO_TCP, TCP_CONGESTION, cc, strlen(cc)) || getsockopt(file, IPPROTO_TCP, TCP_CONGESTION, got, &length))
        fail("congestion control %s: %s", cc, strerror(errno));
    if (strcmp(got, cc)) fail("flows.cc: asked %s, got %s", cc, got);
}

static void set_tos(int file, int tos) {
    int got = -1;
    socklen_t length = sizeof got;
    if (setsockopt(file, IPPROTO_IP, IP_TOS, &tos, sizeof tos) || getsockopt(file, IPPROTO_IP, IP_TOS, &got, &length))
        fail("type of service %d: %s", tos, strerror(errno));
    if (got != tos) fail("dscp and ecn: asked the type of service %d, got %d", tos, got);
}

struct sample_record {
    int64_t time;
    uint32_t flow, flags, rtt, min_rtt, cwnd, ssthresh;
    uint64_t bytes_acked;
    uint32_t in_flight, retransmissions, sent, timeouts, duplicates, delivered_ce;
};
_Static_assert(sizeof(struct sample_record) == 64, "as from_capture.rs reads it");

static void sample(const struct sender *one, uint32_t flags, int64_t time) {
    struct sample_record record = {.time = time, .flow = one->number, .flags = flags};
    union {
        struct tcp_info info;
        unsigned char bytes[512];
    } told = {.bytes = {0}};
    socklen_t length = sizeof told;
    if (one->at.kind == TCP && !getsockopt(one->at.file, IPPROTO_TCP, TCP_INFO, &told, &length)) {
        const struct tcp_info *info = &told.info;
        record.rtt = info->tcpi_rtt;
        record.min_rtt = info->tcpi_min_rtt;
        record.cwnd = info->tcpi_snd_cwnd;
        record.ssthresh = info->tcpi_snd_ssthresh;
        record.bytes_acked = info->tcpi_bytes_acked ? info->tcpi_bytes_acked - 1 : 0;  // the SYN counts as one
        record.in_flight = info->tcpi_unacked - info->tcpi_sacked - info->tcpi_lost + info->tcpi_retrans;
        record.retransmissions = info->tcpi_total_retrans;
        record.sent = info->tcpi_data_segs_out;
        record.duplicates = info->tcpi_dsack_dups;
        record.delivered_ce = info->tcpi_delivered_ce;
        // after tcpi_snd_wnd: tcpi_rcv_wnd and tcpi_rehash, since 6.2, and the 16 bits of tcpi_total_rto, since 6.7
        size_t timeouts = offsetof(struct tcp_info, tcpi_snd_wnd) + 12;
        record.timeouts = length < timeouts + 8 ? UINT32_MAX : told.bytes[timeouts] | told.bytes[timeouts + 1] << 8;
    }
    put(&samples, &record, sizeof record);
}

static void listen_at(struct listener *one) {
    int on = 1;
    one->at.kind = LISTENER;
    one->at.file = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(one->at.file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    set_tos(one->at.file, one->tos);
    set_cc(one->at.file, one->cc);
    if (bind(one->at.file, (void *)&one->address, sizeof one->address) || listen(one->at.file, 4096)) fail("listen: %s", strerror(errno));
    watch(&one->at, EPOLLIN);
}

static void accept_all(struct listener *one) {
    for (;;) {
        int file = accept4(one->at.file, 0, 0, SOCK_NONBLOCK);
        if (file < 0) return;
        if (strcmp(one->accepted, "-")) set_cc(file, one->accepted);
        struct endpoint *receiver = calloc(1, sizeof *receiver);
        *receiver = (struct endpoint){RECEIVER, file};
        watch(receiver, EPOLLIN);
    }
}

static void receive(struct endpoint *one) {
    ssize_t got = recv(one->file, 0, 1 << 30, MSG_TRUNC);  // all that is there; nothing is copied
    if (got > 0 || (got < 0 && errno == EAGAIN)) return;
    close(one->file);
    free(one);
}

// Sends back what comes, as it came.
static void echo(struct endpoint *one) {
    struct sockaddr_in from;
    for (;;) {
        socklen_t length = sizeof from;
        ssize_t got = recvfrom(one->file, data, sizeof data, 0, (void *)&from, &length);
        if (got < 0) return;
        (void)!sendto(one->file, data, (size_t)got, 0, (void *)&from, length);  // what does not fit is lost, as any packet may be
    }
}

static void receive_answers(struct answers *one) {
    struct udp_head head;
    for (;;) {
        ssize_t got = recv(one->at.file, &head, sizeof head, 0);
        if (got < 0) return;
        int64_t now = elapsed(), rtt = now - head.sent_at;
        if (one->of->over || got < (ssize_t)sizeof head) continue;
        uint32_t us = rtt < 1000 ? 1 : (uint32_t)least(rtt / 1000, UINT32_MAX);
        struct sample_record record = {.time = now, .flow = one->of->number, .flags = ANSWER, .rtt = us, .bytes_acked = (uint64_t)rtt};
        put(&samples, &record, sizeof record);
    }
}

static const char *entered;  // the namespace in which sockets are made

static void open_sender(struct sender *one) {
    int on = 1;
    if (one->space != entered) enter(entered = one->space);
    one->at.file = socket(AF_INET, (one->at.kind == TCP ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK, 0);
    setsockopt(one->at.file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    set_tos(one->at.file, one->tos);
    if (one->at.kind == TCP) set_cc(one->at.file, one->cc);
    if (bind(one->at.file, (void *)&one->source, sizeof one->source)) fail("flow %u: bind: %s", one->number, strerror(errno));
    if (connect(one->at.file, (void *)&one->target, sizeof one->target) && errno != EINPROGRESS)
        fail("flow %u: connect: %s", one->number, strerror(errno));
    one->begun = true;
}

static void finish(struct sender *one, uint32_t flags) {
    if (one->over) return;
    sample(one, flags, elapsed());
    one->over = true;
}

// From now on there is an event when the last byte of a write is acknowledged.
static void tell_acknowledged(const struct sender *one) {
    int wanted = SOF_TIMESTAMPING_TX_ACK | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_TSONLY | SOF_TIMESTAMPING_OPT_ID;
    if (setsockopt(one->at.file, SOL_SOCKET, SO_TIMESTAMPING, &wanted, sizeof wanted)) fail("flow %u: time stamps: %s", one->number, strerror(errno));
}

static void start_tcp(struct sender *one) {
    open_sender(one);
    if (one->stop != NEVER) {
        int little = 2 * (int)mss;  // what is in the buffer at the stop still leaves
        setsockopt(one->at.file, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &little, sizeof little);
        tell_acknowledged(one);
    }
    sample(one, START, elapsed());
    watch(&one->at, EPOLLOUT);
}

// Everything was acknowledged?
static bool complete(const struct sender *one) {
    struct tcp_info info;
    socklen_t length = sizeof info;
    memset(&info, 0, sizeof info);
    return !getsockopt(one->at.file, IPPROTO_TCP, TCP_INFO, &info, &length) && (int64_t)info.tcpi_bytes_acked > one->size;
}

// The socket takes more: one write of 128 KB, as iperf3 does after each select(2). Two writes in a row would push other segments.
static void write_tcp(struct sender *one) {
    int64_t left = one->size - one->written;
    if (left > 0) {
        if (left <= (int64_t)sizeof data) tell_acknowledged(one);
        ssize_t sent = send(one->at.file, data, left < (int64_t)sizeof data ? (size_t)left : sizeof data, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) return;
        if (sent < 0) fail("flow %u: send: %s", one->number, strerror(errno));
        left = one->size - (one->written += sent);
    }
    if (left > 0) return;
    // nothing more to write: only acknowledgements matter
    struct epoll_event event = {EPOLLERR, {.ptr = one}};
    epoll_ctl(events_file, EPOLL_CTL_MOD, one->at.file, &event);
}

static void happens_to_tcp(struct sender *one, uint32_t events) {
    if (events & EPOLLERR) {
        char control[512];
        struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
        int error = 0;
        socklen_t length = sizeof error;
        while (recvmsg(one->at.file, &message, MSG_ERRQUEUE) >= 0) message.msg_controllen = sizeof control;
        getsockopt(one->at.file, SOL_SOCKET, SO_ERROR, &error, &length);
        if (error) fail("flow %u: %s", one->number, strerror(error));
        if (!one->over && complete(one)) {
            finish(one, END | COMPLETE);
            close(one->at.file);
            one->at.file = -1;
            return;
        }
    }
    if (events & EPOLLOUT) write_tcp(one);  // beyond the end of the run, too: a socket that is not filled stays ready
}

static void set_timer(int file, int64_t at) {
    int64_t time = started + at;
    struct itimerspec when = {.it_value = {time / 1000000000, time % 1000000000}};
    timerfd_settime(file, TFD_TIMER_ABSTIME, &when, 0);
}

static int new_timer(void) { return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK); }

// UDP: the socket sends, a timer is watched.
static int *udp_sockets;

static void start_udp(struct sender *one) {
    open_sender(one);
    size_t index = (size_t)(one - senders);
    udp_sockets[index] = one->at.file;
    if (one->echo) {
        struct answers *back = calloc(1, sizeof *back);
        *back = (struct answers){{ANSWERS, one->at.file}, one};
        watch(&back->at, EPOLLIN);
    }
    one->at.file = new_timer();
    one->due = (double)one->start;
    sample(one, START, elapsed());
    watch(&one->at, EPOLLIN);
    set_timer(one->at.file, one->start);
}

static void send_udp(struct sender *one) {
    uint64_t expired;
    if (read(one->at.file, &expired, sizeof expired) < 0 || one->over) return;  // a timer that is not read stays ready
    for (int64_t now = elapsed(); one->due <= (double)now;) {
        if ((int64_t)one->due >= one->stop) {
            finish(one, END);
            return;
        }
        struct udp_head head = {one->sent++, one->echo ? elapsed() : 0};  // to read the clock takes time
        memcpy(data, &head, sizeof head);
        if (send(udp_sockets[one - senders], data, (size_t)one->payload, 0) < 0 && errno != EAGAIN && errno != ENOBUFS)
            fail("flow %u: send: %s", one->number, strerror(errno));
        one->due += one->poisson ? -log(1.0 - uniform()) * one->gap : one->gap;
    }
    set_timer(one->at.file, (int64_t)one->due);
}

// The plan.

struct change {
    int64_t at;
    char *text;
};
static struct change *changes;
static size_t change_count;
static int64_t duration, series, tail;
static char *counters_commands[MOST_HOPS];
static size_t counters_count;
static char **show_commands;
static size_t show_count;
static char *apps_command;

static void *grown(void *array, size_t count, size_t size) {
    if (count & (count - 1)) return array;
    array = realloc(array, (count ? 2 * count : 1) * size);
    if (!array) fail("no memory");
    return array;
}

static struct sockaddr_in address_of(const char *text, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, text, &address.sin_addr) != 1) fail("plan: no address: %s", text);
    return address;
}

static int64_t or_never(int64_t time) { return time < 0 ? NEVER : time; }

// Reads the plan, line by line, and does what it says of the network:
//   command TEXT                                         a shell command that has to succeed
//   offload SPACE DEVICE TSO GSO GRO MTU                 0 or 1 each; the MTU that it was given
//   capture arrived|sent SPACE DEVICE                    hop by hop
//   receivers PORT                                       their first port: what comes from there or above goes back to a sender
//   listen SPACE ADDRESS PORT CC ACCEPTED_CC|- TOS       for TCP
//   sink SPACE ADDRESS PORT                              for UDP
//   echo SPACE ADDRESS PORT TOS                          for UDP that is answered
//   senders SPACE                                        the namespace of the senders that follow
//   tcp NUMBER START STOP|-1 SIZE|-1 SOURCE TARGET PORT CC TOS
//   udp NUMBER START STOP|-1 GAP_NS PAYLOAD POISSON SOURCE TARGET PORT TOS ECHO
//   at NS TEXT                                           a shell command in the middle of the run
//   counters TEXT                                        whose output at the end of the run is kept, hop by hop
//   show TEXT                                            whose output after the run is kept, in shown, shown.1, ...
//   show read SPACE FILE...                              likewise the first line of each file, behind its name and a colon
//   apps TEXT                                            a shell command that gets the clock at the start, ns, and ends by itself after the tail
//   app ...                                              for that command
//   duration|series|tail|mss|seed NUMBER
static void read_plan(void) {
    FILE *in = fopen("plan", "r");
    static char line[1 << 16];
    const char *space = 0;
    if (!in) fail("plan: %s", strerror(errno));
    while (fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = 0;
        char *rest = strchr(line, ' '), a[64], b[64], c[64], d[64];
        if (!rest) continue;
        *rest++ = 0;
        int x = 0, y = 0, z = 0, port = 0;
        if (!strcmp(line, "command")) {
            command(rest, 0);
        } else if (!strcmp(line, "offload") && sscanf(rest, "%63s %63s %d %d %d %d", a, b, &x, &y, &z, &port) == 6) {
            offload(a, b, x, y, z, port);
        } else if (!strcmp(line, "capture") && sscanf(rest, "%63s %63s %63s", a, b, c) == 3) {
            open_capture(!strcmp(a, "arrived"), b, c);
        } else if (!strcmp(line, "listen") && sscanf(rest, "%63s %63s %d %15s %15s %d", a, b, &port, c, d, &x) == 6) {
            struct listener *one = calloc(1, sizeof *one);
            one->tos = x;
            one->address = address_of(b, port);
            strcpy(one->cc, c);
            strcpy(one->accepted, d);
            enter(a);
            listen_at(one);
        } else if (!strcmp(line, "sink") && sscanf(rest, "%63s %63s %d", a, b, &port) == 3) {
            struct sockaddr_in address = address_of(b, port);
            enter(a);
            int file = socket(AF_INET, SOCK_DGRAM, 0);  // never read: it is there so that no ICMP says that it is not
            if (bind(file, (void *)&address, sizeof address)) fail("sink: %s", strerror(errno));
        } else if (!strcmp(line, "echo") && sscanf(rest, "%63s %63s %d %d", a, b, &port, &x) == 4) {
            struct sockaddr_in address = address_of(b, port);
            struct endpoint *one = calloc(1, sizeof *one);
            enter(a);
            *one = (struct endpoint){ECHO, socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0)};
            set_tos(one->file, x);
            if (bind(one->file, (void *)&address, sizeof address)) fail("echo: %s", strerror(errno));
            watch(one, EPOLLIN);
        } else if (!strcmp(line, "tcp") || !strcmp(line, "udp")) {
            senders = grown(senders, sender_count, sizeof *senders);
            struct sender *one = &senders[sender_count++];
            memset(one, 0, sizeof *one);
            one->at.kind = line[0] == 't' ? TCP : UDP;
            int parts;
            if (one->at.kind == TCP) {
                parts = sscanf(rest, "%u %ld %ld %ld %63s %63s %d %15s %d", &one->number, &one->start, &one->stop, &one->size, a, b,
                               &port, one->cc, &one->tos) + 1;
                one->size = or_never(one->size);
            } else {
                parts = sscanf(rest, "%u %ld %ld %lf %d %d %63s %63s %d %d %d", &one->number, &one->start, &one->stop, &one->gap,
                               &one->payload, &x, a, b, &port, &one->tos, &y) - 1;
                one->poisson = x;
                one->echo = y;
                if (one->payload < (int)sizeof(struct udp_head)) parts = 0;
            }
            if (!(one->space = space)) fail("plan: no namespace of senders");
            if (parts != 10) fail("plan: %s %s", line, rest);
            one->target = address_of(b, port);
            one->stop = or_never(one->stop);
            one->source = address_of(a, FIRST_PORT + (int)one->number);
        } else if (!strcmp(line, "at")) {
            changes = grown(changes, change_count, sizeof *changes);
            char *text;
            changes[change_count].at = strtol(rest, &text, 10);
            changes[change_count++].text = strdup(text + 1);
        } else if (!strcmp(line, "counters")) {
            if (counters_count == MOST_HOPS) fail("plan: too many hops");
            counters_commands[counters_count++] = strdup(rest);
        } else if (!strcmp(line, "apps")) {
            apps_command = strdup(rest);
        } else if (!strcmp(line, "app")) {
            continue;
        } else if (!strcmp(line, "show")) {
            show_commands = grown(show_commands, show_count, sizeof *show_commands);
            show_commands[show_count++] = strdup(rest);
        } else {
            struct {
                const char *name;
                int64_t *value;
            } numbers[] = {{"duration", &duration}, {"series", &series}, {"tail", &tail}};
            bool known = !strcmp(line, "senders") || !strcmp(line, "mss") || !strcmp(line, "seed") || !strcmp(line, "receivers");
            for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
                if (!strcmp(line, numbers[i].name)) known = true, *numbers[i].value = strtol(rest, 0, 10);
            if (!strcmp(line, "senders")) space = strdup(rest);
            if (!strcmp(line, "receivers")) receivers = atoi(rest);
            if (!strcmp(line, "mss")) mss = (uint32_t)strtoul(rest, 0, 10);
            if (!strcmp(line, "seed")) random_state = strtoull(rest, 0, 10);
            if (!known) fail("plan: %s %s", line, rest);
        }
    }
    fclose(in);
}

// Writes `FILE: first line` of each file that there is, as it is in a network namespace ("-" is this one); no process is needed for that.
static void read_files(char *words, const char *output) {
    FILE *out = fopen(output, "w");
    char *space = strtok(words, " "), line[256];
    if (!out || !space) fail("%s: %s", output, strerror(errno));
    if (strcmp(space, "-")) enter(space);
    for (char *name; (name = strtok(0, " "));) {
        FILE *in = fopen(name, "r");
        if (!in) continue;
        if (fgets(line, sizeof line, in)) fprintf(out, "%s: %.*s\n", name, (int)strcspn(line, "\n"), line);
        fclose(in);
    }
    fclose(out);
}

static int by_start(const void *a, const void *b) {
    const struct sender *one = a, *other = b;
    return one->start != other->start ? (one->start < other->start ? -1 : 1) : (one->number < other->number ? -1 : 1);
}

static void sample_all(uint32_t flags, int64_t time) {
    for (size_t i = 0; i < sender_count; i++) {
        struct sender *one = &senders[i];
        if (!one->begun || one->over || (one->at.kind == UDP && !(flags & END))) continue;
        sample(one, flags, time);
        if (flags & END) one->over = true;
    }
}

// Once every 200 ms: how far the run has come, for whoever shows progress.
static void tell_progress(int64_t now) {
    static int file = -1;
    if (file < 0) file = open("progress", O_WRONLY | O_CREAT, 0644);
    if (pwrite(file, &now, sizeof now, 0) < 0) fail("progress: %s", strerror(errno));
}

// Stops those of the first `count` flows whose time has come. Returns when the next stop of any flow is due.
static int64_t stop_tcp(size_t count, int64_t now) {
    int64_t next = NEVER;
    for (size_t i = 0; i < sender_count; i++) {
        struct sender *one = &senders[i];
        if (one->at.kind != TCP || one->over || one->size != NEVER) continue;
        if (i >= count || one->stop > now) {
            next = least(next, one->stop);
            continue;
        }
        one->size = one->written;
        write_tcp(one);
        if (complete(one)) finish(one, END | COMPLETE);
    }
    return next;
}

static void run(void) {
    struct endpoint timer = {TIMER, new_timer()};
    size_t next = 0, change = 0;
    int64_t next_poll = POLL_NS, next_point = series > 0 ? series : NEVER, next_stop = stop_tcp(0, 0), armed = -1;
    bool over = false;
    watch(&timer, EPOLLIN);
    for (size_t i = 0; i < capture_count; i++) watch(&captures[i]->at, EPOLLIN);
    struct epoll_event happened[256];
    for (;;) {
        int64_t now = elapsed();
        while (change < change_count && changes[change].at <= now) command(changes[change++].text, 0);
        while (!over && next < sender_count && senders[next].start <= now) {
            struct sender *one = &senders[next++];
            if (one->at.kind == TCP) start_tcp(one);
            else start_udp(one);
        }
        if (now >= next_stop) next_stop = stop_tcp(next, now);
        if (!over && (now >= next_poll || now >= next_point || now >= duration)) {
            bool polled = now >= next_poll || now >= duration;
            int64_t due = least(least(next_poll, next_point), duration);
            uint32_t flags = (polled ? POLL : 0) | (due == duration ? END : 0);
            sample_all(flags, due);
            if (polled) tell_progress(due);
            if (due == next_poll) next_poll += POLL_NS;
            if (due == next_point) next_point += series;
            if (due == duration) {
                over = true;
                for (size_t i = 0; i < counters_count; i++) {
                    char name[32];
                    name_of(name, sizeof name, "counters", i);
                    command(counters_commands[i], name);
                }
            }
            continue;
        }
        if (over && now >= duration + tail) break;
        int64_t deadline = over ? duration + tail : least(least(next_poll, next_point), duration);
        if (!over && next < sender_count) deadline = least(deadline, senders[next].start);
        if (change < change_count) deadline = least(deadline, changes[change].at);
        deadline = least(deadline, next_stop);
        if (deadline != armed) set_timer(timer.file, armed = deadline);
        int count = epoll_wait(events_file, happened, sizeof happened / sizeof *happened, -1);
        if (count < 0 && errno != EINTR) fail("epoll: %s", strerror(errno));
        for (int i = 0; i < count; i++) {
            struct endpoint *one = happened[i].data.ptr;
            uint64_t expired;
            switch (one->kind) {
                case TCP: happens_to_tcp((struct sender *)one, happened[i].events); break;
                case UDP: send_udp((struct sender *)one); break;
                case LISTENER: accept_all((struct listener *)one); break;
                case RECEIVER: receive(one); break;
                case ECHO: echo(one); break;
                case ANSWERS: receive_answers((struct answers *)one); break;
                case CAPTURE: take_packets((struct capture *)one); break;
                case TIMER:
                    (void)!read(one->file, &expired, sizeof expired);
                    armed = -1;
                    break;
            }
        }
    }
}

// Starts the program of the applications, which is ready when the run starts: to start takes it no virtual time.
static pid_t start_apps(void) {
    static char line[1 << 16];
    snprintf(line, sizeof line, "exec %s %lld >/dev/null 2>apps.said", apps_command, (long long)started);
    pid_t child = vfork();  // a copy of this process would have copies of the rings, which User-Mode Linux does not stand
    if (child < 0) fail("applications: %s", strerror(errno));
    if (child > 0) return child;
    execl("/bin/sh", "sh", "-c", line, (char *)0);
    _exit(127);
}

// Waits until the program of the applications has ended, and tells why it failed, if it has.
static void end_apps(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (status == 0) return;
    char said[300] = "";
    FILE *in = fopen("apps.said", "r");
    while (in && fgets(said, sizeof said, in)) said[strcspn(said, "\n")] = 0;  // the last line
    fail("applications: %s", *said ? said : "their program ended too early");
}

static void mount_at(const char *what, const char *where) {
    if (mount(what, where, what, 0, 0) && errno != EBUSY) fail("mount of %s: %s", where, strerror(errno));
}

// On the host: runs a guest, and ends it when standard input is closed, as it is when whoever started us is gone.
static int keep(char **command) {
    pid_t us = getpid(), child = fork();
    if (child == 0) {
        int nothing = open("/dev/null", O_RDONLY);
        dup2(nothing, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != us) _exit(1);
        execv(command[0], command);
        fprintf(stderr, "error: %s: %s\n", command[0], strerror(errno));
        _exit(127);
    }
    sigset_t ended;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ended, 0);
    struct pollfd watched[] = {{.fd = 0, .events = POLLIN}, {.fd = signalfd(-1, &ended, SFD_CLOEXEC), .events = POLLIN}};
    int status = 0;
    struct signalfd_siginfo told;
    // the child may have ended before the signal was blocked
    while (child > 0 && waitpid(child, &status, WNOHANG) == 0 && poll(watched, 2, -1) >= 0) {
        if (watched[0].revents) break;
        if (watched[1].revents) (void)!read(watched[1].fd, &told, sizeof told);
    }
    // User-Mode Linux makes a process group of its own; its processes trace each other, and none outlives the first
    kill(-child, SIGKILL);
    kill(child, SIGKILL);
    return 0;
}

int main(int count, char **arguments) {
    if (count > 2 && !strcmp(arguments[1], "keep")) return keep(arguments + 2);
    static char folder[4096];  // PATH_MAX
    if (count < 2 || chdir(arguments[1]) || !getcwd(folder, sizeof folder)) return 2;  // UML puts arguments of its own behind ours
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
    // the rest of the disk is the host's and cannot be written
    if (mount("none", folder, "hostfs", 0, folder) || chdir(folder)) return 3;
    mount_at("proc", "/proc");
    mount_at("sysfs", "/sys");
    mount_at("tmpfs", "/run");
    events_file = epoll_create1(0);
    int first_space = open("/proc/self/ns/net", O_RDONLY);
    open_output(&samples);
    read_plan();
    qsort(senders, sender_count, sizeof *senders, by_start);
    udp_sockets = calloc(sender_count + 1, sizeof *udp_sockets);
    // the run starts at a full second, whatever the set-up took
    int64_t before = clock_ns(CLOCK_MONOTONIC), real = clock_ns(CLOCK_REALTIME), after = clock_ns(CLOCK_MONOTONIC);
    int64_t offset = real - (before + after) / 2;  // to read the clock takes 256 ns of virtual time
    started = (clock_ns(CLOCK_MONOTONIC) / 1000000000 + 2) * 1000000000;
    struct timespec until = {started / 1000000000, 0};
    pid_t apps = apps_command ? start_apps() : 0;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0);
    run();
    struct timespec settle = {0, 500000000};  // until the last blocks of the captures are full or retired
    nanosleep(&settle, 0);
    for (size_t i = 0; i < capture_count; i++) close_capture(captures[i]);
    flush(&samples);
    if (apps) end_apps(apps);
    if (setns(first_space, CLONE_NEWNET)) fail("the first network namespace: %s", strerror(errno));  // which alone has tcp_mem
    for (size_t i = 0; i < show_count; i++) {
        char name[32];
        name_of(name, sizeof name, "shown", i);
        if (!strncmp(show_commands[i], "read ", 5)) read_files(show_commands[i] + 5, name);
        else command(show_commands[i], name);
    }
    FILE *done = fopen("done", "w");
    if (!done) fail("done: %s", strerror(errno));
    fprintf(done, "%lld\n", (long long)(started + offset));
    fclose(done);
    off();
    return 1;
}
