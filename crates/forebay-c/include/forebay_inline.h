// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The hot operations of rings and streams, inline: for C11 and C++17, gcc and clang.
//
//   struct forebay_ring_producer_view view;
//   forebay_ring_producer_open_view(producer, sizeof(uint64_t), &view);
//   forebay_ring_push_inline(&view, &number, sizeof number);
//
// A view is a plain structure of the caller. It does what the functions of forebay.h do with the same end, on the same shared words, and
// calls the library only to wake the other end, or to learn why nothing is possible. Functions of forebay.h may be called for the same
// end in between. What holds for the end holds for its views: one thread at a time, and not in a forked child. Views are not checked: a
// view of an end that was destroyed must not be used. `size` is the one that the view was opened with. Operations on one element set no
// last error.

#ifndef FOREBAY_INLINE_H
#define FOREBAY_INLINE_H

#include "forebay.h"
#include <string.h>

#ifdef __cplusplus
// Not static: inline functions of C++ in several files must call the same function.
#define FOREBAY_INLINE inline __attribute__((always_inline))
#else
#define FOREBAY_INLINE static inline __attribute__((always_inline, unused))
#endif
#define FOREBAY_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

// Copies bytes whose number only the running program knows. gcc would copy a few hundred by `rep movs`, which takes several times as long as
// the function.
FOREBAY_INLINE void forebay_copy(void *to, const void *from, size_t bytes) {
  __asm__("" : "+r"(bytes));
  memcpy(to, from, bytes);
}

// How many bytes the end may use, after a load of the other end's position if it knows of fewer than `bytes`.
FOREBAY_INLINE size_t forebay_end_available(struct forebay_end *end, size_t bytes) {
  if (end->limit - end->position < bytes) {
    end->limit = __atomic_load_n(end->theirs, __ATOMIC_ACQUIRE) + end->ahead;
  }
  return end->limit - end->position;
}

// Whether functions of the library have used the end since the view was filled.
FOREBAY_INLINE bool forebay_end_is_stale(const struct forebay_end *end) {
  return FOREBAY_UNLIKELY(__atomic_load_n(end->mine, __ATOMIC_RELAXED) != end->position);
}

FOREBAY_INLINE bool forebay_end_is_over(const struct forebay_end *end) {
  return FOREBAY_UNLIKELY(__atomic_load_n(end->state, __ATOMIC_ACQUIRE) != 0);
}

// Publishes the end's position. Returns whether the other end may wait.
FOREBAY_INLINE bool forebay_end_publish(struct forebay_end *end, size_t position) {
  end->position = position;
  __asm__ volatile("" ::: "memory"); // The compiler may take the two views for different memory.
  __atomic_store_n(end->mine, position, __ATOMIC_RELEASE);
  __asm__ volatile("" ::: "memory"); // The store stays before the load. An end that goes to sleep fences for both.
  return FOREBAY_UNLIKELY(__atomic_load_n(end->bell, __ATOMIC_RELAXED) != 0);
}

// Moves on by `bytes` and publishes that. Returns whether the other end may wait.
FOREBAY_INLINE bool forebay_end_advance(struct forebay_end *end, size_t bytes) {
  unsigned char *at = end->at + bytes;
  if (FOREBAY_UNLIKELY(at >= end->seam)) {
    at -= end->seam_bytes;
  }
  end->at = at;
  return forebay_end_publish(end, end->position + bytes);
}

// The same for one element that was pushed. Fetches a line that the consumer has read, and that is therefore in another cache, before it
// is needed.
FOREBAY_INLINE bool forebay_end_advance_one(struct forebay_end *end, size_t size) {
  if (size == 1 || 64 % size != 0) {
    return forebay_end_advance(end, size);
  }
  // Elements of this size end where a line ends, and so does the memory.
  unsigned char *at = end->at + size;
  if (FOREBAY_UNLIKELY(((size_t)at & 63) == 0)) {
    at -= at == end->seam ? end->seam_bytes : 0;
    const unsigned char *line = at + (size_t)16 * 64;
    __builtin_prefetch(line >= end->seam ? line - end->seam_bytes : line, 1);
  }
  end->at = at;
  return forebay_end_publish(end, end->position + size);
}

// Makes a view of an end, or brings it up to date, and wakes the other end. A view that no function of the library gets the address of
// stays in registers.
FOREBAY_INLINE int forebay_ring_producer_open_view(forebay_ring_producer *handle, size_t size,
                                                   struct forebay_ring_producer_view *view) {
  struct forebay_ring_producer_view fresh;
  int code = forebay_ring_producer_sync(handle, size, &fresh);
  if (code == 0) {
    *view = fresh;
  }
  return code;
}

FOREBAY_INLINE int forebay_ring_consumer_open_view(forebay_ring_consumer *handle, size_t size,
                                                   struct forebay_ring_consumer_view *view) {
  struct forebay_ring_consumer_view fresh;
  int code = forebay_ring_consumer_sync(handle, size, &fresh);
  if (code == 0) {
    *view = fresh;
  }
  return code;
}

FOREBAY_INLINE int forebay_stream_writer_open_view(forebay_stream_writer *handle,
                                                   struct forebay_stream_writer_view *view) {
  struct forebay_stream_writer_view fresh;
  int code = forebay_stream_writer_sync(handle, &fresh);
  if (code == 0) {
    *view = fresh;
  }
  return code;
}

FOREBAY_INLINE int forebay_stream_reader_open_view(forebay_stream_reader *handle,
                                                   struct forebay_stream_reader_view *view) {
  struct forebay_stream_reader_view fresh;
  int code = forebay_stream_reader_sync(handle, &fresh);
  if (code == 0) {
    *view = fresh;
  }
  return code;
}

// What a function of the library changes of an end; all else stays as it is, and compilers keep it where it is.
FOREBAY_INLINE void forebay_end_follow(struct forebay_end *end, const struct forebay_end *fresh) {
  end->at = fresh->at;
  end->position = fresh->position;
  end->limit = fresh->limit;
}

FOREBAY_INLINE int forebay_ring_producer_update_view(struct forebay_ring_producer_view *view, size_t size) {
  struct forebay_ring_producer_view fresh;
  int code = forebay_ring_producer_sync(view->handle, size, &fresh);
  if (code == 0) {
    forebay_end_follow(&view->end, &fresh.end);
  }
  return code;
}

FOREBAY_INLINE int forebay_ring_consumer_update_view(struct forebay_ring_consumer_view *view, size_t size) {
  struct forebay_ring_consumer_view fresh;
  int code = forebay_ring_consumer_sync(view->handle, size, &fresh);
  if (code == 0) {
    forebay_end_follow(&view->end, &fresh.end);
  }
  return code;
}

FOREBAY_INLINE int forebay_stream_writer_update_view(struct forebay_stream_writer_view *view) {
  struct forebay_stream_writer_view fresh;
  int code = forebay_stream_writer_sync(view->handle, &fresh);
  if (code == 0) {
    forebay_end_follow(&view->end, &fresh.end);
  }
  return code;
}

FOREBAY_INLINE int forebay_stream_reader_update_view(struct forebay_stream_reader_view *view) {
  struct forebay_stream_reader_view fresh;
  int code = forebay_stream_reader_sync(view->handle, &fresh);
  if (code == 0) {
    forebay_end_follow(&view->end, &fresh.end);
  }
  return code;
}

// Pushes one element: 0, or as forebay_ring_push.
FOREBAY_INLINE int forebay_ring_push_inline(struct forebay_ring_producer_view *view, const void *element, size_t size) {
  struct forebay_end *end = &view->end;
  if (forebay_end_is_stale(end)) {
    int code = forebay_ring_producer_update_view(view, size);
    if (code != 0) {
      return code;
    }
  }
  if (FOREBAY_UNLIKELY(forebay_end_available(end, size) < size)) {
    if (!forebay_end_is_over(end)) {
      return FOREBAY_FULL;
    }
    if (forebay_end_available(end, size) < size) { // what the consumer popped last is visible now
      return FOREBAY_CLOSED;
    }
  }
  memcpy(end->at, element, size);
  if (forebay_end_advance_one(end, size)) {
    (void)forebay_ring_producer_update_view(view, size);
  }
  return 0;
}

// Pops one element: 0, or as forebay_ring_pop.
FOREBAY_INLINE int forebay_ring_pop_inline(struct forebay_ring_consumer_view *view, void *element, size_t size) {
  struct forebay_end *end = &view->end;
  if (forebay_end_is_stale(end)) {
    int code = forebay_ring_consumer_update_view(view, size);
    if (code != 0) {
      return code;
    }
  }
  if (FOREBAY_UNLIKELY(forebay_end_available(end, size) < size)) {
    if (!forebay_end_is_over(end)) {
      return FOREBAY_EMPTY;
    }
    if (forebay_end_available(end, size) < size) { // what the producer pushed last is visible now
      return FOREBAY_CLOSED;
    }
  }
  memcpy(element, end->at, size);
  if (forebay_end_advance(end, size)) {
    (void)forebay_ring_consumer_update_view(view, size);
  }
  return 0;
}

// Pushes as many of `count` elements as there is room for: their number, or as forebay_ring_push_burst.
FOREBAY_INLINE ptrdiff_t forebay_ring_push_burst_inline(struct forebay_ring_producer_view *view, const void *elements,
                                                        size_t count, size_t size) {
  struct forebay_end *end = &view->end;
  if (forebay_end_is_stale(end)) {
    int code = forebay_ring_producer_update_view(view, size);
    if (code != 0) {
      return code;
    }
  }
  size_t wanted = count <= (size_t)PTRDIFF_MAX / size ? count * size : (size_t)PTRDIFF_MAX / size * size;
  size_t available = forebay_end_available(end, wanted);
  size_t bytes = available < wanted ? available : wanted;
  if (FOREBAY_UNLIKELY(bytes == 0 || forebay_end_is_over(end))) {
    return forebay_ring_push_burst(view->handle, elements, count);
  }
  forebay_copy(end->at, elements, bytes);
  if (forebay_end_advance(end, bytes)) {
    (void)forebay_ring_producer_update_view(view, size);
  }
  return (ptrdiff_t)(bytes / size);
}

// Pops up to `count` elements: their number, or as forebay_ring_pop_burst.
FOREBAY_INLINE ptrdiff_t forebay_ring_pop_burst_inline(struct forebay_ring_consumer_view *view, void *elements, size_t count,
                                                       size_t size) {
  struct forebay_end *end = &view->end;
  if (forebay_end_is_stale(end)) {
    int code = forebay_ring_consumer_update_view(view, size);
    if (code != 0) {
      return code;
    }
  }
  size_t wanted = count <= (size_t)PTRDIFF_MAX / size ? count * size : (size_t)PTRDIFF_MAX / size * size;
  size_t available = forebay_end_available(end, wanted);
  size_t bytes = available < wanted ? available : wanted;
  if (FOREBAY_UNLIKELY(bytes == 0)) {
    return forebay_ring_pop_burst(view->handle, elements, count);
  }
  forebay_copy(elements, end->at, bytes);
  if (forebay_end_advance(end, bytes)) {
    (void)forebay_ring_consumer_update_view(view, size);
  }
  return (ptrdiff_t)(bytes / size);
}

// Pushes as many bytes as there is room for: their number, or as forebay_stream_push.
FOREBAY_INLINE ptrdiff_t forebay_stream_push_inline(struct forebay_stream_writer_view *view, const void *bytes, size_t len) {
  struct forebay_end *end = &view->end;
  if (forebay_end_is_stale(end)) {
    int code = forebay_stream_writer_update_view(view);
    if (code != 0) {
      return code;
    }
  }
  size_t available = forebay_end_available(end, len);
  size_t pushed = available < len ? available : len;
  if (FOREBAY_UNLIKELY(pushed == 0) || forebay_end_is_over(end)) {
    return forebay_stream_push(view->handle, bytes, len);
  }
  forebay_copy(end->at, bytes, pushed);
  if (forebay_end_advance(end, pushed)) {
    (void)forebay_stream_writer_update_view(view);
  }
  return (ptrdiff_t)pushed;
}

// Lends all bytes in the stream that can be read without waiting: their number, or as forebay_stream_peek.
FOREBAY_INLINE ptrdiff_t forebay_stream_peek_inline(struct forebay_stream_reader_view *view, const void **bytes) {
  struct forebay_end *end = &view->end;
  if (forebay_end_is_stale(end)) {
    int code = forebay_stream_reader_update_view(view);
    if (code != 0) {
      return code;
    }
  }
  size_t available = forebay_end_available(end, (size_t)-1);
  if (FOREBAY_UNLIKELY(available == 0)) {
    return forebay_stream_peek(view->handle, bytes);
  }
  *bytes = end->at;
  return (ptrdiff_t)available;
}

// Releases the first `count` bytes: how many there were, or as forebay_stream_consume.
FOREBAY_INLINE ptrdiff_t forebay_stream_consume_inline(struct forebay_stream_reader_view *view, size_t count) {
  struct forebay_end *end = &view->end;
  if (forebay_end_is_stale(end)) {
    int code = forebay_stream_reader_update_view(view);
    if (code != 0) {
      return code;
    }
  }
  size_t available = forebay_end_available(end, count);
  size_t consumed = available < count ? available : count;
  if (forebay_end_advance(end, consumed)) {
    (void)forebay_stream_reader_update_view(view);
  }
  return (ptrdiff_t)consumed;
}

// Pops up to `len` bytes into `target`: their number, or as forebay_stream_pop.
FOREBAY_INLINE ptrdiff_t forebay_stream_pop_inline(struct forebay_stream_reader_view *view, void *target, size_t len) {
  const void *bytes;
  ptrdiff_t filled = forebay_stream_peek_inline(view, &bytes);
  if (filled <= 0 || len == 0) {
    return len == 0 ? 0 : filled;
  }
  size_t popped = (size_t)filled < len ? (size_t)filled : len;
  forebay_copy(target, bytes, popped);
  return forebay_stream_consume_inline(view, popped);
}

#endif // FOREBAY_INLINE_H
