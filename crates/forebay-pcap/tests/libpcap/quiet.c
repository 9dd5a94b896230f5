/* Prints what using a device or a file has changed in the process. usage: quiet DEVICE|FILE */
#define _GNU_SOURCE
#include <dirent.h>
#include <pcap/pcap.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct {
    struct sigaction handlers[NSIG];
    struct rlimit limits[RLIM_NLIMITS];
    sigset_t blocked;
    char status[3][64];
    char folder[256];
} states[2];

/* The rest of a line of /proc/self/status. */
static void read_status(const char *name, char *text) {
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, name, strlen(name))) snprintf(text, 64, "%.60s", line + strlen(name));
    fclose(status);
}

static void note(int which) {
    for (int number = 1; number < NSIG; number++) sigaction(number, NULL, &states[which].handlers[number]);
    for (int limit = 0; limit < RLIM_NLIMITS; limit++) getrlimit(limit, &states[which].limits[limit]);
    sigprocmask(SIG_BLOCK, NULL, &states[which].blocked);
    read_status("Seccomp:", states[which].status[0]);
    read_status("NoNewPrivs:", states[which].status[1]);
    read_status("CapEff:", states[which].status[2]);
    if (!getcwd(states[which].folder, sizeof states[which].folder)) printf("no folder\n");
}

static int threads(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks));) count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

int main(int argc, char **argv) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    const u_char *data;
    struct pcap_pkthdr *header;
    struct pcap_stat stats;
    if (argc < 2) return 1;
    note(0);
    int is_file = strchr(argv[1], '/') != NULL;
    pcap_t *handle = is_file ? pcap_open_offline(argv[1], errors) : pcap_open_live(argv[1], 96, 0, 20, errors);
    if (!handle) {
        printf("%s\n", errors);
        return 1;
    }
    struct bpf_program program;
    if (pcap_compile(handle, &program, "greater 1", 1, 0) || pcap_setfilter(handle, &program)) printf("%s\n", pcap_geterr(handle));
    pcap_freecode(&program);
    while (pcap_next_ex(handle, &header, &data) == 0) {}
    pcap_stats(handle, &stats);
    printf("threads %d\n", threads());
    /* Some devices need a thread for it. */
    pcap_get_selectable_fd(handle);
    note(1);
    pcap_close(handle);
    for (int number = 1; number < NSIG; number++)
        if (states[0].handlers[number].sa_handler != states[1].handlers[number].sa_handler) printf("a handler of signal %d\n", number);
    for (int number = 1; number < NSIG; number++)
        if (sigismember(&states[0].blocked, number) != sigismember(&states[1].blocked, number)) printf("blocked signal %d\n", number);
    if (memcmp(states[0].limits, states[1].limits, sizeof states[0].limits)) printf("a limit\n");
    for (int line = 0; line < 3; line++)
        if (strcmp(states[0].status[line], states[1].status[line])) printf("%s became %s", states[0].status[line], states[1].status[line]);
    if (strcmp(states[0].folder, states[1].folder)) printf("the folder\n");
    return 0;
}
