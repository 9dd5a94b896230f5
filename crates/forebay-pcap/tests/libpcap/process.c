/* Uses a handle after what a service does to its process. usage: process DEVICE FOLDER */
#define _GNU_SOURCE
#include <grp.h>
#include <pcap/pcap.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void count(u_char *packets, const struct pcap_pkthdr *header, const u_char *data) {
    (void)header, (void)data;
    ++*(int *)packets;
}

static pcap_t *opened(const char *device) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    pcap_t *handle = pcap_open_live(device, 96, 0, 20, errors);
    if (!handle) printf("%s\n", errors), exit(1);
    /* A device that needs a thread has one now. */
    pcap_get_selectable_fd(handle);
    return handle;
}

static void take(const char *what, pcap_t *handle) {
    int packets = 0, returned = pcap_loop(handle, 20, count, (u_char *)&packets);
    struct pcap_stat stats;
    printf("%s: loop %d packets %d stats %d\n", what, returned, packets, pcap_stats(handle, &stats));
    fflush(stdout);
    pcap_close(handle);
}

/* Goes on in a child. */
static void forked(void) {
    pid_t child = fork();
    int status;
    if (!child) return;
    waitpid(child, &status, 0);
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
}

int main(int argc, char **argv) {
    if (argc < 3) return 1;
    pcap_t *handle = opened(argv[1]);
    pid_t child = fork();
    if (!child) {
        take("child", handle);
        _exit(0);
    }
    pcap_close(handle);
    waitpid(child, NULL, 0);

    handle = opened(argv[1]);
    forked();
    forked();
    take("grandchild", handle);

    handle = opened(argv[1]);
    pcap_t *other = opened(argv[1]);
    pcap_dumper_t *dumper = pcap_dump_open(handle, "/dev/null");
    if (chroot(argv[2]) || chdir("/")) return 2;
    take("chroot", handle);
    if (setgroups(0, NULL) || setgid(65534) || setuid(65534)) return 3;
    printf("user %d\n", getuid() == 65534);
    take("setuid", other);
    pcap_dump_close(dumper);
    /* What needs rights is an error now. */
    char errors[PCAP_ERRBUF_SIZE] = "";
    printf("lo %d\n", pcap_open_live("lo", 96, 0, 20, errors) != NULL);
    return 0;
}
