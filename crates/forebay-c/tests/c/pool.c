// A pool and its packets: room in front and after, sharing, longer packets, and returning in any order and from any thread.
#include "check.h"
#include <pthread.h>

static void *returns(void *packet) {
  CHECK_IS(forebay_packet_destroy(packet), FOREBAY_OK);
  return NULL;
}

int main(void) {
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
