/* A heap's malloc and free, behind harness.h: that of the library which this is linked with. */

static void set_up(void) {}

static void begin_thread(void) {}

static void end_thread(void) {}

static inline void *take(void) { return malloc(BYTES); }

static inline void put_back(void *buffer) { free(buffer); }

static inline void take_burst(void **burst) {
    for (int k = 0; k < BURST; k++) burst[k] = take();
}

static inline void put_back_burst(void **burst, int n) {
    for (int k = 0; k < n; k++) put_back(burst[k]);
}

static inline unsigned char *room(void *buffer) { return buffer; }

static inline unsigned char *data(void *buffer) { return buffer; }
