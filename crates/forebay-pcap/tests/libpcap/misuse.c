/* Calls every function in odd orders: with null pointers, on handles that are not activated, of every kind, in use by a callback or by
 * another thread, and closed. Prints what is returned, and must not crash. usage: misuse FILE OUTPUT */
#include <pcap/pcap.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *output;

static void none(u_char *user, const struct pcap_pkthdr *header, const u_char *data) { (void)user, (void)header, (void)data; }

/* Everything that can be called with a handle, except for closing it. Prints how much succeeded. */
static int every(pcap_t *handle) {
    char errors[PCAP_ERRBUF_SIZE];
    struct pcap_pkthdr *header, copied;
    const u_char *data;
    struct pcap_stat stats;
    struct bpf_program program = {0}, invalid = {3, NULL};
    int *list = NULL, *types = NULL, done = 0;
    pcap_breakloop(handle);
    done += pcap_set_snaplen(handle, -5) == 0;
    done += pcap_set_promisc(handle, 1) == 0;
    done += pcap_set_rfmon(handle, 0) == 0;
    done += pcap_can_set_rfmon(handle) == 0;
    done += pcap_set_timeout(handle, -1) == 0;
    done += pcap_set_tstamp_type(handle, 99) == 0;
    done += pcap_set_immediate_mode(handle, 1) == 0;
    done += pcap_set_buffer_size(handle, -1) == 0;
    done += pcap_set_tstamp_precision(handle, 99) == 0;
    done += pcap_set_protocol_linux(handle, 0) == 0;
    done += pcap_list_tstamp_types(handle, &types) > 0;
    pcap_free_tstamp_types(types);
    done += pcap_list_tstamp_types(handle, NULL) > 0;
    done += pcap_snapshot(handle) >= 0;
    done += pcap_datalink(handle) >= 0;
    done += pcap_datalink_ext(handle) >= 0;
    done += pcap_list_datalinks(handle, &list) > 0;
    pcap_free_datalinks(list);
    done += pcap_list_datalinks(handle, NULL) > 0;
    done += pcap_set_datalink(handle, 999) == 0;
    done += pcap_is_swapped(handle) >= 0;
    done += pcap_major_version(handle) >= 0;
    done += pcap_minor_version(handle) >= 0;
    done += pcap_bufsize(handle) >= 0;
    done += pcap_get_tstamp_precision(handle) >= 0;
    done += pcap_file(handle) != NULL;
    done += pcap_fileno(handle) >= 0;
    done += pcap_get_selectable_fd(handle) >= 0;
    done += pcap_get_required_select_timeout(handle) != NULL;
    done += pcap_getnonblock(handle, errors) >= 0;
    done += pcap_getnonblock(handle, NULL) >= 0;
    done += pcap_setnonblock(handle, 1, NULL) >= 0;
    done += pcap_stats(handle, &stats) == 0;
    done += pcap_stats(handle, NULL) == 0;
    done += pcap_setdirection(handle, 77) == 0;
    done += pcap_inject(handle, NULL, 5) >= 0;
    done += pcap_sendpacket(handle, NULL, -5) >= 0;
    done += pcap_compile(handle, &program, "udp", 1, 0) == 0;
    done += pcap_setfilter(handle, &program) == 0;
    done += pcap_setfilter(handle, NULL) == 0;
    done += pcap_setfilter(handle, &invalid) == 0;
    done += pcap_compile(handle, NULL, "udp", 1, 0) == 0;
    done += pcap_compile(handle, &invalid, "nonsense and", 1, 0) == 0;
    pcap_freecode(&program);
    pcap_freecode(&program);
    done += pcap_loop(handle, 1, NULL, NULL) >= 0;
    done += pcap_dispatch(handle, 1, none, NULL) >= 0;
    done += pcap_next(handle, &copied) != NULL;
    done += pcap_next(handle, NULL) != NULL;
    done += pcap_next_ex(handle, &header, &data) == 1;
    done += pcap_next_ex(handle, NULL, NULL) == 1;
    pcap_dumper_t *dumper = pcap_dump_open(handle, output);
    done += dumper != NULL;
    pcap_dump_close(dumper);
    pcap_dump_close(dumper);
    pcap_dump((u_char *)dumper, &copied, (const u_char *)"x");
    done += pcap_dump_flush(dumper) == 0;
    done += pcap_dump_ftell(dumper) >= 0;
    done += pcap_dump_file(dumper) != NULL;
    done += pcap_dump_open(handle, NULL) != NULL;
    done += pcap_dump_open(handle, "/nosuch/file") != NULL;
    done += pcap_dump_fopen(handle, NULL) != NULL;
    done += pcap_dump_open_append(handle, NULL) != NULL;
    done += pcap_geterr(handle) != NULL;
    return done;
}

static void closed_twice(const char *name, pcap_t *handle) {
    printf("%s %d", name, every(handle));
    pcap_close(handle);
    printf(" closed %d", every(handle));
    printf(" activate %d loop %d\n", pcap_activate(handle), pcap_loop(handle, -1, none, NULL));
    pcap_close(handle);
}

static pcap_t *handle;
static pcap_dumper_t *dumper;
static int calls;

static void uses(u_char *action, const struct pcap_pkthdr *header, const u_char *data) {
    struct pcap_pkthdr *other;
    calls++;
    switch (*action) {
    case 'n': pcap_next_ex(handle, &other, &data); break;
    case 'd': pcap_dispatch(handle, 2, none, NULL); break;
    case 'e': every(handle); break;
    case 'c': pcap_close(handle); break;
    case 'C': pcap_close(handle); every(handle); pcap_close(handle); break;
    case 'w': pcap_dump((u_char *)dumper, header, data); pcap_dump_close(dumper); break;
    }
}

static pcap_t *opened(const char *source) {
    char errors[PCAP_ERRBUF_SIZE];
    return strchr(source, '/') ? pcap_open_offline(source, errors) : pcap_open_live(source, 96, 0, 5, errors);
}

static void in_callback(const char *kind, const char *source) {
    for (const char *action = "ndecCw"; *action; action++) {
        handle = opened(source);
        dumper = pcap_dump_open(handle, output);
        calls = 0;
        int returned = pcap_loop(handle, 3, uses, (u_char *)action);
        printf("%s %c loop %d calls %d\n", kind, *action, returned, calls);
        pcap_close(handle);
        pcap_dump_close(dumper);
    }
}

static void *others(void *unused) {
    struct pcap_stat stats;
    struct bpf_program program;
    if (pcap_compile_nopcap(96, DLT_EN10MB, &program, "udp", 1, 0)) abort();
    for (int i = 0; i < 2000; i++) {
        pcap_stats(handle, &stats);
        pcap_setfilter(handle, &program);
        pcap_snapshot(handle);
        pcap_setnonblock(handle, i & 1, NULL);
        pcap_get_selectable_fd(handle);
        pcap_breakloop(handle);
    }
    pcap_freecode(&program);
    return unused;
}

/* One handle in three threads, and in that of the library. */
static void in_threads(void) {
    pthread_t threads[2];
    handle = opened("sim:rate=100kpps");
    pcap_get_selectable_fd(handle);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, others, NULL);
    for (int i = 0; i < 2000; i++) pcap_dispatch(handle, 10, none, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    pcap_close(handle);
}

int main(int argc, char **argv) {
    char errors[PCAP_ERRBUF_SIZE];
    pcap_if_t *devices;
    bpf_u_int32 network;
    if (argc < 3) return 1;
    output = argv[2];
    pcap_close(NULL);
    pcap_dump(NULL, NULL, NULL);
    pcap_freecode(NULL);
    pcap_freealldevs(NULL);
    pcap_perror(NULL, NULL);
    printf("null %d offline_filter %d", every(NULL), pcap_offline_filter(NULL, NULL, NULL));
    printf(" open %d %d %d", pcap_open_offline(NULL, errors) != NULL, pcap_fopen_offline(NULL, errors) != NULL,
           pcap_open_dead_with_tstamp_precision(1, 1, 9) != NULL);
    printf(" findalldevs %d", pcap_findalldevs(NULL, NULL) == 0);
    if (pcap_findalldevs(&devices, errors) == 0) pcap_freealldevs(devices);
    printf(" lookupnet %d lookupdev %d", pcap_lookupnet(NULL, &network, NULL, errors), pcap_lookupdev(errors) != NULL);
    printf(" names %d %d %d\n", pcap_datalink_name_to_val(NULL), pcap_tstamp_type_name_to_val(NULL), pcap_init(9, NULL));

    handle = pcap_create(NULL, NULL);
    pcap_breakloop(handle);
    closed_twice("created", handle);
    handle = pcap_create("sim:rate=100kpps", errors);
    pcap_breakloop(handle);
    printf("activate %d", pcap_activate(handle));
    printf(" %d", pcap_activate(handle));
    printf(" loop %d", pcap_loop(handle, -1, none, NULL));
    printf(" dispatch %d\n", pcap_dispatch(handle, 1, none, NULL));
    closed_twice("live", handle);
    closed_twice("dead", pcap_open_dead(DLT_EN10MB, 100));
    closed_twice("file", opened(argv[1]));
    in_callback("file", argv[1]);
    in_callback("live", "sim:rate=100kpps");
    in_threads();
    /* Many at a time. */
    pcap_t *many[100];
    for (int i = 0; i < 100; i++) many[i] = pcap_open_dead(i, 100);
    for (int i = 0; i < 100; i += 2) pcap_close(many[i]);
    int right = 0;
    for (int i = 0; i < 100; i++) right += pcap_datalink(many[i]) == (i % 2 ? i : PCAP_ERROR);
    for (int i = 1; i < 100; i += 2) pcap_close(many[i]);
    printf("many %d\n", right);
    return 0;
}
