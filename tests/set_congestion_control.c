// set_congestion_control PORT NAME: gives the connection of process 1 with this local port another congestion control.
// In a guest of the linux engine that process has all sockets.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_FILES = 256 };

int main(int count, char **arguments) {
    int process = (int)syscall(SYS_pidfd_open, 1, 0), changed = 0;
    if (count != 3 || process < 0) return perror("pidfd_open"), 2;
    for (int number = 0; number < MOST_FILES; number++) {
        int file = (int)syscall(SYS_pidfd_getfd, process, number, 0);
        struct sockaddr_in own = {0};
        socklen_t length = sizeof own;
        if (file < 0 || getsockname(file, (void *)&own, &length) || ntohs(own.sin_port) != atoi(arguments[1])) continue;
        if (setsockopt(file, IPPROTO_TCP, TCP_CONGESTION, arguments[2], (socklen_t)strlen(arguments[2])))
            return perror("TCP_CONGESTION"), 1;
        changed++;
    }
    if (changed != 1) fprintf(stderr, "%d connections have the port %s\n", changed, arguments[1]);
    return changed != 1;
}
