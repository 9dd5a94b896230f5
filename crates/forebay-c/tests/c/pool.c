// A pool and its packets: room in front and after, sharing, longer packets, and returning in any order and from any thread.
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void *returns(void *packet) {
  CHECK_IS(forebay_packet_destroy(packet), FOREBAY_OK);
  return NULL;
}

static void *adopts(void *consumer) {
  struct forebay_desc descs[3];
  forebay_packet *packets[3];
  for (int i = 0; i < 3; i++) CHECK_IS(forebay_ring_pop_wait(consumer, &descs[i], FOREBAY_FOREVER), FOREBAY_OK);
  CHECK_IS(forebay_desc_len(&descs[0]), 3);
  CHECK_IS(forebay_desc_adopt(descs, 3, packets), 3);
  const void *data;
  CHECK_IS(forebay_packet_data(packets[0], &data), 3);
  CHECK(memcmp(data, "abc", 3) == 0);
  for (int i = 0; i < 3; i++) CHECK_IS(forebay_packet_destroy(packets[i]), FOREBAY_OK);
  return NULL;
}

// Packets as descriptors in a ring to another thread, and descriptors that are wrong.
static void descriptors(void) {
  forebay_pool *pool;
  struct forebay_pool_options options = {.size = sizeof options, .slots = 4, .slot_bytes = 256};
  CHECK_IS(forebay_pool_create(&options, &pool), FOREBAY_OK);
  forebay_packet *packets[3];
  void *bytes;
  for (int i = 0; i < 3; i++) {
    CHECK_IS(forebay_pool_take(pool, 0, &packets[i]), FOREBAY_OK);
    CHECK_IS(forebay_packet_put(packets[i], 3, &bytes), FOREBAY_OK);
    memcpy(bytes, "abc", 3);
  }
  struct forebay_packet_facts facts = {.size = sizeof facts, .time_ns = 12345, .hash = 7, .port = 3};
  CHECK_IS(forebay_packet_set_facts(packets[0], &facts), FOREBAY_OK);
  struct forebay_desc descs[3], copy;
  CHECK_IS(forebay_packet_describe(packets, 3, descs), 3);
  CHECK_IS(forebay_packet_len(packets[0]), FOREBAY_MISUSE);
  CHECK_IS(forebay_packet_describe(packets, 3, descs), FOREBAY_MISUSE);
  CHECK(forebay_desc_time_ns(&descs[0]) == 12345 && forebay_desc_hash(&descs[0]) == 7);
  CHECK_IS(forebay_desc_port(&descs[0]), 3);
  CHECK_IS(forebay_desc_len(NULL), FOREBAY_INVALID);
  // Changed by one bit each, and made up.
  for (int bit = 0; bit < 128; bit++) {
    copy = descs[0];
    copy.words[bit / 64] ^= UINT64_C(1) << bit % 64;
    CHECK_IS(forebay_desc_adopt(&copy, 1, packets), FOREBAY_MISUSE);
  }
  pid_t child = fork();
  if (child == 0) {
    CHECK_IS(forebay_desc_adopt(descs, 1, packets), FOREBAY_MISUSE);
    _exit(0); // not `exit`: a leak checker would find what belongs to the parent
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);

  forebay_ring_producer *producer;
  forebay_ring_consumer *consumer;
  struct forebay_ring_options ring = {.size = sizeof ring, .element_size = sizeof(struct forebay_desc), .capacity = 4};
  CHECK_IS(forebay_ring_create(&ring, &producer, &consumer), FOREBAY_OK);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, adopts, consumer) == 0);
  CHECK_IS(forebay_ring_push_burst(producer, descs, 3), 3);
  pthread_join(thread, NULL);
  CHECK_IS(forebay_desc_adopt(descs, 1, packets), FOREBAY_MISUSE); // a second time
  CHECK_IS(forebay_ring_producer_destroy(producer), FOREBAY_OK);
  CHECK_IS(forebay_ring_consumer_destroy(consumer), FOREBAY_OK);

  // Two packets with the same bytes: two descriptors; and one that begins elsewhere is none.
  CHECK_IS(forebay_pool_take(pool, SECOND, &packets[0]), FOREBAY_OK);
  CHECK_IS(forebay_packet_put(packets[0], 3, &bytes), FOREBAY_OK);
  CHECK_IS(forebay_packet_share(packets[0], &packets[1]), FOREBAY_OK);
  CHECK_IS(forebay_packet_share(packets[0], &packets[2]), FOREBAY_OK);
  CHECK_IS(forebay_packet_pull(packets[2], 1, NULL), FOREBAY_OK);
  CHECK_IS(forebay_packet_describe(packets, 3, descs), 2);
  CHECK_IS(forebay_packet_describe(packets + 2, 1, descs + 2), FOREBAY_BUSY);
  CHECK_IS(forebay_packet_len(packets[2]), 2);
  descs[2] = descs[0];
  CHECK_IS(forebay_desc_adopt(descs, 3, packets), 2);
  CHECK_IS(forebay_desc_adopt(descs, 1, packets), FOREBAY_MISUSE);
  for (int i = 0; i < 3; i++) CHECK_IS(forebay_packet_destroy(packets[i]), FOREBAY_OK);
  CHECK_IS(forebay_packet_return_idle(), FOREBAY_OK);
  struct forebay_pool_counts counts = {.size = sizeof counts};
  for (int i = 0; i < 4; i++) CHECK_IS(forebay_pool_take(pool, SECOND, &packets[0]), FOREBAY_OK); // all are back
  CHECK_IS(forebay_pool_count(pool, &counts), FOREBAY_OK);
  CHECK(counts.free == 0 && counts.away == 4);
  CHECK_IS(forebay_pool_destroy(pool), FOREBAY_OK);
}

int main(void) {
  descriptors();
  forebay_pool *pool, *other_pool;
  struct forebay_pool_options options = {.size = sizeof options, .slots = 4, .slot_bytes = 256, .headroom = 64};
  CHECK_IS(forebay_pool_create(&options, &pool), FOREBAY_OK);
  CHECK_IS(forebay_pool_create(&options, &other_pool), FOREBAY_OK);
  forebay_packet *packet, *shared, *more[4];
  CHECK_IS(forebay_pool_take(pool, 0, &packet), FOREBAY_OK);
  CHECK_IS(forebay_packet_headroom(packet), 64);
  CHECK_IS(forebay_packet_tailroom(packet), 192);
  void *bytes;
  CHECK_IS(forebay_packet_put(packet, 7, &bytes), FOREBAY_OK);
  memcpy(bytes, "payload", 7);
  CHECK_IS(forebay_packet_push(packet, 5, &bytes), FOREBAY_OK);
  memcpy(bytes, "head:", 5);
  const void *data;
  CHECK_IS(forebay_packet_data(packet, &data), 12);
  CHECK(memcmp(data, "head:payload", 12) == 0);
  CHECK_IS(forebay_packet_push(packet, 60, &bytes), FOREBAY_TOO_LONG);
  CHECK_IS(forebay_packet_pull(packet, 13, NULL), FOREBAY_INVALID);
  CHECK_IS(forebay_packet_pull(packet, 5, &data), FOREBAY_OK);
  CHECK(memcmp(data, "head:", 5) == 0);
  CHECK_IS(forebay_packet_trim(packet, 3), FOREBAY_OK);
  CHECK_IS(forebay_packet_trim(packet, 4), FOREBAY_INVALID);

  struct forebay_packet_facts facts = {.size = sizeof facts, .time_ns = 12345, .wire_len = 1500, .hash = 7, .port = 3};
  CHECK_IS(forebay_packet_set_facts(packet, &facts), FOREBAY_OK);
  CHECK_IS(forebay_packet_set_facts(packet, NULL), FOREBAY_INVALID);
  memset(&facts.time_ns, 0, sizeof facts - sizeof facts.size);
  CHECK_IS(forebay_packet_get_facts(packet, &facts), FOREBAY_OK);
  CHECK(facts.time_ns == 12345 && facts.wire_len == 1500 && facts.hash == 7 && facts.port == 3);

  // Two packets with the same bytes: neither is written.
  CHECK_IS(forebay_packet_share(packet, &shared), FOREBAY_OK);
  CHECK_IS(forebay_packet_data_mut(shared, &bytes), FOREBAY_BUSY);
  CHECK_IS(forebay_packet_unshare(shared, pool), FOREBAY_OK);
  CHECK_IS(forebay_packet_data_mut(shared, &bytes), 3);
  ((char *)bytes)[0] = 'P';
  CHECK_IS(forebay_packet_data(packet, &data), 3);
  CHECK(memcmp(data, "pay", 3) == 0);

  // Longer than a slot.
  char text[300], copy[400];
  memset(text, 'x', sizeof text);
  CHECK_IS(forebay_packet_append(packet, pool, text, sizeof text), FOREBAY_OK);
  CHECK_IS(forebay_packet_len(packet), 303);
  CHECK_IS(forebay_packet_copy(packet, copy, 302), FOREBAY_TOO_LONG);
  CHECK_IS(forebay_packet_copy(packet, copy, sizeof copy), 303);
  CHECK(memcmp(copy, "payxxx", 6) == 0 && copy[302] == 'x');

  // Small slots, and fields of a later version.
  forebay_pool *small;
  struct forebay_pool_options few = {.size = sizeof few, .slots = 1, .slot_bytes = 128};
  CHECK_IS(forebay_pool_create(&few, &small), FOREBAY_OK);
  struct {
    struct forebay_pool_counts known;
    uint64_t later;
  } larger = {.known = {.size = sizeof larger}, .later = 7};
  CHECK_IS(forebay_pool_count(small, &larger.known), FOREBAY_OK);
  CHECK(larger.known.slots == 1 && larger.later == 0);
  CHECK_IS(forebay_pool_destroy(small), FOREBAY_OK);

  // Another pool's, itself twice, and after it was returned.
  CHECK_IS(forebay_pool_put_back(other_pool, shared), FOREBAY_INVALID);
  CHECK_IS(forebay_pool_put_back(pool, shared), FOREBAY_OK);
  CHECK_IS(forebay_pool_put_back(pool, shared), FOREBAY_MISUSE);
  CHECK_IS(forebay_packet_len(shared), FOREBAY_MISUSE);
  CHECK_IS(forebay_pool_put_back(pool, (forebay_packet *)(void *)pool), FOREBAY_BUSY);

  // From another thread, and after the pool.
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, returns, packet) == 0);
  pthread_join(thread, NULL);
  for (int i = 0; i < 4; i++) CHECK_IS(forebay_pool_take(pool, SECOND, &more[i]), FOREBAY_OK);
  CHECK_IS(forebay_pool_take(pool, 0, &packet), FOREBAY_EMPTY);
  CHECK_IS(forebay_pool_take(pool, 1000, &packet), FOREBAY_TIMED_OUT);
  struct forebay_pool_counts counts = {.size = sizeof counts};
  CHECK_IS(forebay_pool_count(pool, &counts), FOREBAY_OK);
  CHECK(counts.slots == 4 && counts.free == 0 && counts.away == 4 && counts.exhausted >= 2);
  CHECK_IS(forebay_pool_destroy(pool), FOREBAY_OK);
  CHECK_IS(forebay_packet_put(more[0], 1, &bytes), FOREBAY_OK);
  *(char *)bytes = 'x';
  for (int i = 0; i < 4; i++) CHECK_IS(forebay_packet_destroy(more[i]), FOREBAY_OK);
  CHECK_IS(forebay_packet_return_idle(), FOREBAY_OK);
  CHECK_IS(forebay_pool_destroy(other_pool), FOREBAY_OK);
  return 0;
}
