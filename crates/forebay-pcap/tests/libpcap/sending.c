/* Sends on the interfaces from which it receives. Run with two libraries, the output is compared. */
#define _GNU_SOURCE
#include <pcap/pcap.h>
#include <string.h>
#include <unistd.h>

static pcap_t *opened(const char *device) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    pcap_t *handle = pcap_create(device, errors);
    pcap_set_immediate_mode(handle, 1);
    pcap_set_timeout(handle, 10);
    printf("%s %d\n", device, pcap_activate(handle));
    return handle;
}

static void emit(pcap_t *handle, int number, int len) {
    u_char frame[2000] = "\2\0\0\0\0\xee\2\0\0\0\0\1\x88\xb5";
    frame[14] = number;
    int sent = pcap_inject(handle, frame, len);
    printf("sent %d %s\n", sent, sent < 0 ? pcap_geterr(handle) : "");
}

/* Waits for the last frame, and prints all. */
static void receive(const char *who, pcap_t *handle, int last) {
    struct pcap_pkthdr *header;
    const u_char *data;
    int number = 0, returned;
    while (number != last) {
        while ((returned = pcap_next_ex(handle, &header, &data)) == 0) {}
        if (returned < 0) break;
        number = data[14];
        printf("%s received %d\n", who, number);
    }
}

int main(void) {
    pcap_t *a = opened("va"), *b = opened("vb"), *any = opened("any");
    emit(any, 9, 60);
    emit(a, 1, 60);
    emit(a, 2, 1514);
    receive("b", b, 2);
    emit(b, 3, 60);
    /* Not the frames that it sent. */
    receive("a", a, 3);
    emit(a, 4, 1900);
    pcap_setnonblock(a, 1, NULL);
    emit(a, 4, 60);
    /* Rights are only needed to open a device. */
    if (setresuid(65534, 65534, 65534)) return 0;
    emit(a, 5, 60);
    emit(b, 6, 60);
    receive("b", b, 5);
    pcap_close(a);
    pcap_close(b);
    return 0;
}
