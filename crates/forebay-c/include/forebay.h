// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef FOREBAY_H
#define FOREBAY_H

// Made by cbindgen from crates/forebay-c: do not edit.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A count that the source cannot report.
#define FOREBAY_UNKNOWN UINT64_MAX

// The number of the interface. It grows with each change, also of the layout of a structure.
#define FOREBAY_INTERFACE 1

// No time limit.
#define FOREBAY_FOREVER -1

// The numbers of errors, which all functions return that can fail. Counts are never negative. The numbers never change.
enum forebay_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // No error.
  FOREBAY_OK = 0,
  // There is no room now.
  FOREBAY_FULL = -1,
  // There is nothing now.
  FOREBAY_EMPTY = -2,
  // The time limit was reached.
  FOREBAY_TIMED_OUT = -3,
  // The other end is gone or closed, or the stream has ended.
  FOREBAY_CLOSED = -4,
  // An argument is out of its range, a null pointer, or a structure of a wrong size.
  FOREBAY_INVALID = -5,
  // It never fits.
  FOREBAY_TOO_LONG = -6,
  // There is no such object.
  FOREBAY_NOT_FOUND = -7,
  // The object exists already.
  FOREBAY_EXISTS = -8,
  // The system refused it.
  FOREBAY_PERMISSION = -9,
  // Not supported here, or by this version.
  FOREBAY_UNSUPPORTED = -10,
  // Stopped by another thread or a signal.
  FOREBAY_INTERRUPTED = -11,
  // Not enough memory, or 16 million handles exist.
  FOREBAY_NO_MEMORY = -12,
  // The bytes of a file or of another process make no sense.
  FOREBAY_DAMAGED = -13,
  // Another thread uses this end, or it has a second reader.
  FOREBAY_BUSY = -14,
  // Any other error of the operating system: see `forebay_last_errno`.
  FOREBAY_IO = -15,
  // The handle is null, closed, of another kind, or from before a fork.
  FOREBAY_MISUSE = -16,
  // A defect of this library.
  FOREBAY_PANIC = -17,
  // Messages were overwritten before they were received. The next call continues after them.
  FOREBAY_OVERRUN = -18,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum forebay_code forebay_code;
#else
typedef int32_t forebay_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The format of a capture file.
enum forebay_format
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // pcap if the name of the file ends in `.pcap` or `.cap`, and otherwise pcapng.
  FOREBAY_FORMAT_OF_NAME = 0,
  FOREBAY_PCAPNG = 1,
  // The classic format: one link type, and neither losses nor directions nor counts.
  FOREBAY_PCAP = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum forebay_format forebay_format;
#else
typedef int32_t forebay_format;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How a stream has ended.
enum forebay_stream_end
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // It has not.
  FOREBAY_STREAM_OPEN = 0,
  // The writer closed it: the content is complete.
  FOREBAY_STREAM_CLOSED = 1,
  // Either end has set an error.
  FOREBAY_STREAM_FAILED = 2,
  // The writer was destroyed without closing: bytes may be missing.
  FOREBAY_STREAM_WRITER_GONE = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum forebay_stream_end forebay_stream_end;
#else
typedef int32_t forebay_stream_end;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a full queue does with another message.
enum forebay_when_full
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // The sender waits, as long as its time limit says.
  FOREBAY_WAIT = 0,
  // The queue refuses the message.
  FOREBAY_REFUSE = 1,
  // The queue discards its oldest messages, and counts them.
  FOREBAY_DROP_OLDEST = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum forebay_when_full forebay_when_full;
#else
typedef int32_t forebay_when_full;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Appends records to a file. One thread at a time may use it.
typedef struct forebay_appender forebay_appender;

// An end of a broadcast that receives. One thread at a time may use it.
typedef struct forebay_broadcast_reader forebay_broadcast_reader;

// The end of a broadcast that sends. One thread at a time may use it.
typedef struct forebay_broadcast_sender forebay_broadcast_sender;

// A source of packets. One thread at a time may take packets from it; any thread, and a signal handler, may stop it.
typedef struct forebay_capture forebay_capture;

// A compiled filter. Any number of threads may use it.
typedef struct forebay_filter forebay_filter;

// The receiving end of lanes. All threads may use it at the same time.
typedef struct forebay_hub forebay_hub;

// The sending end of a lane. One thread at a time may use it.
typedef struct forebay_lane forebay_lane;

// A message that the program holds, or several.
typedef struct forebay_loan forebay_loan;

// Memory that is mapped twice, one view after the other: what is written at an offset is also at that offset plus `view_bytes`.
typedef struct forebay_mirror forebay_mirror;

// A packet in a slot of a pool. One thread at a time may use it; the handle may be passed to another thread, for example through a ring.
typedef struct forebay_packet forebay_packet;

// A pool of slots. One thread at a time may use it; its packets may be used and returned in any thread.
typedef struct forebay_pool forebay_pool;

// The receiving end of a queue. All threads may use it at the same time.
typedef struct forebay_receiver forebay_receiver;

// Reads the records of a file. One thread at a time may use it.
typedef struct forebay_record_reader forebay_record_reader;

// Room in a queue that the program holds.
typedef struct forebay_reservation forebay_reservation;

// The end of a ring that pops. One thread at a time may use it.
typedef struct forebay_ring_consumer forebay_ring_consumer;

// The end of a ring that pushes. One thread at a time may use it.
typedef struct forebay_ring_producer forebay_ring_producer;

// The sending end of a queue. All threads may use it at the same time.
typedef struct forebay_sender forebay_sender;

// A queue between processes, to which this one is attached. All threads may use it at the same time.
typedef struct forebay_shared_queue forebay_shared_queue;

// The end of a stream that reads. One thread at a time may use it.
typedef struct forebay_stream_reader forebay_stream_reader;

// The end of a stream that writes. One thread at a time may use it.
typedef struct forebay_stream_writer forebay_stream_writer;

// A descriptor that is readable once a queue has a message, or room. One thread at a time may use it.
typedef struct forebay_watch forebay_watch;

// Writes packets to a capture file. One thread at a time may use it.
typedef struct forebay_writer forebay_writer;

// Settings of a broadcast. Zeros are the defaults.
typedef struct forebay_broadcast_options {
  // `sizeof(struct forebay_broadcast_options)`.
  size_t size;
  // Bytes for messages; 0 is 1 MiB.
  size_t data_bytes;
  // Number of messages that are kept, rounded up to a power of two; 0 is 8192.
  size_t messages;
} forebay_broadcast_options;

// A message that was received, or why there is none.
typedef struct forebay_broadcast_received {
  // `FOREBAY_TOO_LONG`: the bytes that the buffer needs.
  size_t len;
  // The number of the message.
  uint64_t sequence;
  // `FOREBAY_OVERRUN`: how many messages were lost.
  uint64_t lost;
} forebay_broadcast_received;

// Settings of a capture. Zeros are the defaults.
typedef struct forebay_capture_options {
  // `sizeof(struct forebay_capture_options)`.
  size_t size;
  // A filter in the language of libpcap, or null. It applies to every kind of source.
  const char *filter;
  // Bytes of the source's ring; 0 is 64 MiB for an interface.
  uint64_t ring_bytes;
  // How long an interface may hold frames back to hand over many at once, in nanoseconds; 0 is 100 ms.
  uint64_t delay_ns;
  // Bytes of each frame that are needed; 0 is 262144.
  uint32_t snaplen;
  // Not 0: no promiscuous mode.
  uint32_t not_promiscuous;
  // Not 0: no frames that this machine sends.
  uint32_t incoming_only;
  // 0.
  uint32_t reserved;
} forebay_capture_options;

// A packet where the source has it.
typedef struct forebay_frame {
  // The bytes kept, from the link-layer header on.
  const uint8_t *data;
  // Number of bytes kept.
  size_t len;
  // Nanoseconds since 1970.
  uint64_t time_ns;
  // Frames that the source lost directly before this one.
  uint64_t dropped_before;
  // Its length on the wire in bytes.
  uint32_t wire_len;
  // The number of its interface, from 0.
  uint32_t interface;
  // 0: unknown; 1: received; 2: sent by this machine.
  uint32_t direction;
  // 0.
  uint32_t reserved;
} forebay_frame;

// The program's function for each packet, with its `context`. The packet is lent until it returns. Not 0 stops. It may leave by an exception,
// and must not leave by `longjmp`.
typedef int (*forebay_frame_callback)(void *context, const struct forebay_frame *frame);

// Where every packet went. At the end `received` is the sum of all other counts but `interface_dropped`. `FOREBAY_UNKNOWN`: the
// source does not report it.
typedef struct forebay_counts {
  // `sizeof(struct forebay_counts)`.
  size_t size;
  // Packets that the source has received.
  uint64_t received;
  // Packets that the program has taken.
  uint64_t counted;
  // Packets that the filter rejected. If the kernel filters and cannot count (it can as eBPF), they are neither here nor in `received`.
  uint64_t filtered;
  // Packets that were received and not taken when the capture ended.
  uint64_t unread;
  // Lost in the ring of the kernel or of the simulated card.
  uint64_t kernel;
  // Lost because the receive ring of an AF_XDP socket was full.
  uint64_t rx_ring;
  // Lost because the fill ring of an AF_XDP socket had no memory.
  uint64_t fill_ring;
  // Lost on the way into a veth interface that is read with AF_XDP.
  uint64_t peer;
  // Overwritten in the memory of a share before they were read.
  uint64_t overrun;
  // Lost by the interface, or by the capture that shares its packets, before this source saw them. Not part of `received`.
  uint64_t interface_dropped;
} forebay_counts;

// A packet in 16 bytes. It owns the packet's slot. Of all copies of it, one becomes a packet again, once.
typedef struct forebay_desc {
  // Only the functions with `desc` in their names read them.
  uint64_t words[2];
} forebay_desc;

// Settings of a hub. Zeros are the defaults.
typedef struct forebay_hub_options {
  // `sizeof(struct forebay_hub_options)`.
  size_t size;
  // The most senders at a time; 0 is 64.
  size_t max_peers;
  // The most bytes of a lane, which its sender provides; 0 is 1 MiB.
  size_t max_lane_bytes;
} forebay_hub_options;

// A message that a hub received, or the end of a lane.
typedef struct forebay_hub_received {
  // `FOREBAY_TOO_LONG`: the bytes that the buffer needs.
  size_t len;
  // The number that the hub gave the sender.
  uint64_t peer;
  // The number of the message in its lane.
  uint64_t sequence;
  // 1: the lane of this peer has ended, and no message was received. `FOREBAY_CLOSED`: the sender closed it or its process ended.
  // `FOREBAY_DAMAGED`: it broke the protocol. Other lanes go on.
  uint32_t lane_ended;
  uint32_t reserved;
} forebay_hub_received;

// Settings of a pool. Zeros are the defaults.
typedef struct forebay_pool_options {
  // `sizeof(struct forebay_pool_options)`.
  size_t size;
  // Number of slots; 0 is 2048.
  uint32_t slots;
  // Bytes of a slot; 0 is 2048.
  uint32_t slot_bytes;
  // Bytes in front of the data of a new packet; 0 is 128, and in slots below 256 bytes a half. `forebay_packet_reserve` sets it for one packet.
  uint32_t headroom;
  // Not 0: the memory is not faulted in when the pool is made, but when it is used first.
  uint32_t lazy;
  // Not 0: pages of 2 MiB.
  uint32_t huge_pages;
  // Zero.
  uint32_t reserved;
} forebay_pool_options;

// The counts of a pool.
typedef struct forebay_pool_counts {
  // `sizeof(struct forebay_pool_counts)`.
  size_t size;
  uint32_t slots;
  uint32_t free;
  // Slots in use, or returned and not collected yet.
  uint32_t away;
  // The most that were away.
  uint32_t max_away;
  // How many packets were asked for while no slot was free.
  uint64_t exhausted;
} forebay_pool_counts;

// What is known of a packet.
typedef struct forebay_packet_facts {
  // `sizeof(struct forebay_packet_facts)`.
  size_t size;
  // The time in nanoseconds. The packet keeps its lowest 48 bits, which are 78 hours.
  uint64_t time_ns;
  // Bytes on the wire.
  uint32_t wire_len;
  uint16_t hash;
  uint8_t port;
  // Zero.
  uint8_t reserved;
} forebay_packet_facts;

// Settings of a queue. Zeros are the defaults.
typedef struct forebay_queue_options {
  // `sizeof(struct forebay_queue_options)`.
  size_t size;
  // Bytes for messages, rounded up to a page; 0 is 1 MiB.
  size_t capacity_bytes;
  // One of `enum forebay_when_full`.
  uint32_t when_full;
  // Not 0: the memory is not faulted in when the queue is made, but when it is used first. Only for queues between threads.
  uint32_t lazy;
  // Not 0: pages of 2 MiB. Only for queues between threads.
  uint32_t huge_pages;
  // Not 0: what a dead process had taken and not released is not delivered again. Only for queues between processes.
  uint32_t at_most_once;
} forebay_queue_options;

// A message that was received.
typedef struct forebay_received {
  // `FOREBAY_TOO_LONG`: the bytes that the buffer needs.
  size_t len;
  // The number of the message in the queue.
  uint64_t sequence;
  // 1: the message was delivered before, to a process that died.
  uint32_t redelivered;
  uint32_t reserved;
} forebay_received;

// A message in the queue. It is valid until its loan is released.
typedef struct forebay_message {
  const void *data;
  size_t len;
  // The number of the message in the queue.
  uint64_t sequence;
  // 1: the message was delivered before, to a process that died. Always 0 in a burst.
  uint32_t redelivered;
  uint32_t reserved;
} forebay_message;

// The counts of a queue: `reserved = received + dropped + aborted + torn + queued`.
typedef struct forebay_queue_stats {
  // `sizeof(struct forebay_queue_stats)`.
  size_t size;
  uint64_t reserved;
  uint64_t received;
  // Discarded because the queue was full.
  uint64_t dropped;
  // Reserved, and abandoned.
  uint64_t aborted;
  // Their sender died while it filled them.
  uint64_t torn;
  uint64_t queued;
  // Delivered again, since a process died.
  uint64_t redelivered;
  // Taken by a process that died, and not delivered again.
  uint64_t abandoned;
  uint64_t used_bytes;
} forebay_queue_stats;

// Settings of an appender. Zeros are the defaults.
typedef struct forebay_appender_options {
  // `sizeof(struct forebay_appender_options)`.
  size_t size;
  // Number of buffers at the beginning; 0 is 16.
  size_t buffers;
  // Bytes of a buffer, a multiple of 4096; 0 is 4 MiB.
  size_t buffer_bytes;
  // Bytes of the longest record, if they may have any length; 0 is 64 KiB.
  size_t record_bytes;
  // Records are written after this time at the latest; 0 is a second.
  uint64_t flush_every_ns;
  // Written records are made durable after this time; 0: at the end of the file.
  uint64_t sync_every_ns;
  // Not 0: a record is dropped and counted while no buffer is empty, instead of waiting.
  uint32_t drop_when_full;
  // Zero.
  uint32_t reserved;
} forebay_appender_options;

// The counts of an appender.
typedef struct forebay_appender_totals {
  // `sizeof(struct forebay_appender_totals)`.
  size_t size;
  // Records accepted.
  uint64_t accepted;
  // Those that survive the end of this process.
  uint64_t written;
  // Those that survive a power cut.
  uint64_t durable;
  // Records dropped because no buffer was empty. They do not count as accepted.
  uint64_t dropped;
  uint64_t written_bytes;
  uint64_t durable_bytes;
} forebay_appender_totals;

// Bytes of the program.
typedef struct forebay_bytes {
  const void *data;
  size_t len;
} forebay_bytes;

// Settings of a ring. Zeros are the defaults.
typedef struct forebay_ring_options {
  // `sizeof(struct forebay_ring_options)`.
  size_t size;
  // Bytes of an element, 1 or more; 0 is 1. Elements are aligned to the largest power of two in it, up to 4096.
  size_t element_size;
  // Number of elements, all usable; 0 is 1024.
  size_t capacity;
  // Not 0: the memory is not faulted in when the ring is made, but when it is used first.
  uint32_t lazy;
  // Not 0: pages of 2 MiB, if the ring is that large.
  uint32_t huge_pages;
  // Not 0: the lowest latency for single elements, but fewer elements per second.
  uint32_t latency;
  // Zero.
  uint32_t reserved;
} forebay_ring_options;

// Room for a message in the queue. It is valid until it is committed or abandoned.
typedef struct forebay_room {
  void *data;
  size_t len;
  // The number that the message will have in the queue.
  uint64_t sequence;
} forebay_room;

// Settings of a stream. Zeros are the defaults.
typedef struct forebay_stream_options {
  // `sizeof(struct forebay_stream_options)`.
  size_t size;
  // Bytes, all usable; 0 is 65536.
  size_t capacity_bytes;
  // Not 0: the memory is not faulted in when the stream is made, but when it is used first.
  uint32_t lazy;
  // Not 0: pages of 2 MiB, if the stream is that large.
  uint32_t huge_pages;
} forebay_stream_options;

// The addresses and words of an end. Only the functions of `forebay_inline.h` use its fields.
typedef struct forebay_end {
  // The byte at `position`, in the first of two views of the memory.
  uint8_t *at;
  // Where the second view begins.
  uint8_t *seam;
  // Bytes of a view.
  size_t seam_bytes;
  // Bytes pushed or popped so far; wraps.
  size_t position;
  // The first position that the end may not use, as far as it knows.
  size_t limit;
  // What is added to the other end's position to get the limit.
  size_t ahead;
  // This end's position, shared.
  size_t *mine;
  // The other end's position, shared.
  const size_t *theirs;
  // Not 0: the other end may wait.
  const uint32_t *bell;
  // Not 0: the ring or stream has ended.
  const uint32_t *state;
} forebay_end;

// A view of an end that pushes elements.
typedef struct forebay_ring_producer_view {
  struct forebay_end end;
  struct forebay_ring_producer *handle;
} forebay_ring_producer_view;

// A view of an end that pops elements.
typedef struct forebay_ring_consumer_view {
  struct forebay_end end;
  struct forebay_ring_consumer *handle;
} forebay_ring_consumer_view;

// A view of an end that writes bytes.
typedef struct forebay_stream_writer_view {
  struct forebay_end end;
  struct forebay_stream_writer *handle;
} forebay_stream_writer_view;

// A view of an end that reads bytes.
typedef struct forebay_stream_reader_view {
  struct forebay_end end;
  struct forebay_stream_reader *handle;
} forebay_stream_reader_view;

// Settings of a writer. Zeros are the defaults.
typedef struct forebay_writer_options {
  // `sizeof(struct forebay_writer_options)`.
  size_t size;
  // The program that a pcapng file names, or null: the library.
  const char *application;
  // One of `enum forebay_format`.
  uint32_t format;
  // Bytes that are kept of each packet; 0 is 262144.
  uint32_t snaplen;
} forebay_writer_options;

// The counts of a writer.
typedef struct forebay_writer_totals {
  // `sizeof(struct forebay_writer_totals)`.
  size_t size;
  // Packets accepted.
  uint64_t packets;
  // Those that survive the end of this process.
  uint64_t written;
  uint64_t written_bytes;
} forebay_writer_totals;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes a broadcast, and stores its sending end. `options` may be null.
int forebay_broadcast_create(const struct forebay_broadcast_options *options, struct forebay_broadcast_sender **sender);

// Sends a copy of a message to all readers, wakes those that wait, and returns its number.
int64_t forebay_broadcast_send(struct forebay_broadcast_sender *handle, const void *message, size_t len);

// The longest message, in bytes.
ptrdiff_t forebay_broadcast_largest(struct forebay_broadcast_sender *handle);

// The descriptor by which readers in other processes attach. It belongs to the sending end: do not close it.
int forebay_broadcast_descriptor(struct forebay_broadcast_sender *handle);

// Ends the sending end. Readers get what is kept, and then `FOREBAY_CLOSED`.
int forebay_broadcast_sender_destroy(struct forebay_broadcast_sender *handle);

// Attaches a reader by a descriptor, also one from a process that is not trusted. It begins at the next message. The library duplicates
// the descriptor.
int forebay_broadcast_attach(int number,
                             struct forebay_broadcast_reader **reader);

// Copies the next message into a buffer of `room` bytes, and returns its length. `received` may be null. `FOREBAY_OVERRUN`: messages were
// lost, and the next call continues after them. `FOREBAY_TOO_LONG`: the message stays.
ptrdiff_t forebay_broadcast_receive(struct forebay_broadcast_reader *handle,
                                    void *buffer,
                                    size_t room,
                                    int64_t timeout_ns,
                                    struct forebay_broadcast_received *received);

// Continues at the oldest message that is kept, and returns its number.
int64_t forebay_broadcast_seek_oldest(struct forebay_broadcast_reader *handle);

// Continues at the next message that is sent, and returns its number.
int64_t forebay_broadcast_seek_newest(struct forebay_broadcast_reader *handle);

// Prepares a wait for a message in `poll`. 1: there is none yet; wait until the descriptor is readable, and try again. 0: there is one, or
// the sending end is gone; do not wait. The first call starts a thread, which ends after the reader.
int forebay_broadcast_reader_arm(struct forebay_broadcast_reader *handle);

// The descriptor for `forebay_broadcast_reader_arm`. It belongs to the reader: do not read or close it.
int forebay_broadcast_reader_descriptor(struct forebay_broadcast_reader *handle);

// Ends the reader.
int forebay_broadcast_reader_destroy(struct forebay_broadcast_reader *handle);

// Opens an interface (`eth0`, `any`, `xdp:eth0`), the packets that a capture shares (`share:NAME`) or the simulated card (`sim`).
// `options` may be null.
int forebay_capture_open(const char *name,
                         const struct forebay_capture_options *options,
                         struct forebay_capture **capture);

// Opens a capture file, also a compressed one; `-` is standard input. `options` may be null.
int forebay_capture_read(const char *path,
                         const struct forebay_capture_options *options,
                         struct forebay_capture **capture);

// Waits for packets, stores where an array of those that have arrived is, and returns their number. They are lent until the next call with
// this capture: the bytes are in the ring of the interface, or where the file was read to. `FOREBAY_CLOSED`: the source has ended.
// `FOREBAY_INTERRUPTED`: it was stopped, and all packets that had been received are taken.
ptrdiff_t forebay_capture_next(struct forebay_capture *handle,
                               const struct forebay_frame **frames,
                               int64_t timeout_ns);

// Calls the program's function for each packet, in this thread, until it returns another value than 0, the source has ended, or it was
// stopped. Returns the number of calls. Packets after the last call stay in the source. Until it returns, every other call with this capture
// except `forebay_capture_stop` is `FOREBAY_BUSY`, also in the function. An exception of the function, in C++, leaves this call, too: the
// packets up to that one are taken, and the capture can go on.
int64_t forebay_capture_each(struct forebay_capture *handle,
                             forebay_frame_callback callback,
                             void *context);

// Prepares a wait in `poll`. 1: there is no packet; wait until the descriptor is readable, and try again. 0: do not wait, but try again: there
// are packets, the source has ended, or it had packets that the filter rejected. Packets that are lent are lent no more.
int forebay_capture_arm(struct forebay_capture *handle);

// Cancels the request of `forebay_capture_arm`: packets make the descriptor readable no more. A stop that no `forebay_capture_arm` has seen
// yet still does.
int forebay_capture_disarm(struct forebay_capture *handle);

// The descriptor for `forebay_capture_arm`. It is readable while packets wait, once the source has ended, and after `forebay_capture_stop`
// until the next `forebay_capture_arm`. With a share, and with `ssh:` after a stop, it also becomes readable every 10 ms. It belongs to the capture until `forebay_capture_finish`: do not read or close it.
int forebay_capture_descriptor(struct forebay_capture *handle);

// Detaches the capture from its source: calls that wait return. Packets received so far can still be taken. Any thread may call it, and a
// signal handler: it changes neither `errno` nor the last error of the thread.
int forebay_capture_stop(const struct forebay_capture *handle);

// The link type of an interface as in capture files (1: Ethernet). `FOREBAY_NOT_FOUND`: there is none with this number so far.
int forebay_capture_link_type(struct forebay_capture *handle,
                              uint32_t interface);

// Stores the counts so far; after `forebay_capture_finish`, those at the end. Set `size` before.
int forebay_capture_counts(struct forebay_capture *handle, struct forebay_counts *result);

// Ends the capture, and stores its counts. Packets that were received and not taken are `unread`. Packets that are lent are lent no more.
// `counts` may be null. `FOREBAY_INVALID`: its `size` is wrong, and the capture goes on. Another error is that of the source, which failed
// while its last packets were counted: the capture has ended, and the counts are stored.
int forebay_capture_finish(struct forebay_capture *handle,
                           struct forebay_counts *result);

// Ends the capture, if it has not ended, and gives its memory back. `FOREBAY_BUSY`: a call in another thread uses it, and nothing has
// happened: stop it, and wait for that thread. No signal handler may stop it any more.
int forebay_capture_destroy(struct forebay_capture *handle);

// Compiles a filter in the language of libpcap, for packets of this link type (1: Ethernet).
int forebay_filter_compile(const char *expression, uint16_t link_type, struct forebay_filter **filter);

// Returns 1 if the packet with these bytes and this length on the wire matches, and otherwise 0.
int forebay_filter_matches(const struct forebay_filter *handle, const void *data, size_t len, uint32_t wire_len);

// Gives the filter back.
int forebay_filter_destroy(struct forebay_filter *handle);

// Turns packets into descriptors, and returns how many: all before the first one that cannot be. The handles of these packets end, and
// their slots stay in use until `forebay_desc_adopt`. `FOREBAY_BUSY`: another call uses the first packet, or other packets share its slot
// and begin or end elsewhere, see `forebay_packet_unshare`.
ptrdiff_t forebay_packet_describe(struct forebay_packet *const *packets,
                                  size_t count,
                                  struct forebay_desc *descs);

// Turns descriptors into packets, in any thread: stores their handles in `packets`, which has room for `count`, and returns how many: all
// before the first one that cannot be. A descriptor and all its copies become a packet once. A copy that is kept longer must not be used: if
// the slot was described again with the same length and facts, it equals the new descriptor. `FOREBAY_MISUSE`: the first one was
// turned into a packet before, does not come from `forebay_packet_describe`, or is from before a fork. `FOREBAY_NO_MEMORY`: 16 million handles
// exist, and its packet went back to the pool.
ptrdiff_t forebay_desc_adopt(const struct forebay_desc *descs,
                             size_t count,
                             struct forebay_packet **packets);

// The length of the packet's data, also in further slots. It does not touch the packet, as the other functions that read a descriptor.
ptrdiff_t forebay_desc_len(const struct forebay_desc *desc);

// The lowest 48 bits of the packet's time in nanoseconds.
int64_t forebay_desc_time_ns(const struct forebay_desc *desc);

// The hash of the packet's flow.
int forebay_desc_hash(const struct forebay_desc *desc);

// The packet's port.
int forebay_desc_port(const struct forebay_desc *desc);

// Makes a hub. `options` may be null.
int forebay_hub_create(const struct forebay_hub_options *options, struct forebay_hub **hub);

// Accepts a sender that is connected by a Unix stream socket, and returns its number. The library duplicates the socket. Close
// your own: it would keep the lane open.
int64_t forebay_hub_accept(struct forebay_hub *handle,
                           int connected,
                           int64_t timeout_ns);

// Copies the next message of any lane into a buffer of `room` bytes, and returns its length. With a time limit of 0 it never waits:
// `FOREBAY_EMPTY`. If `received->lane_ended` is 1, the code says how the lane of `received->peer` ended.
ptrdiff_t forebay_hub_receive(struct forebay_hub *handle,
                              void *buffer,
                              size_t room,
                              int64_t timeout_ns,
                              struct forebay_hub_received *received);

// Ends the lane of this sender. `FOREBAY_NOT_FOUND`: there is none.
int forebay_hub_expel(struct forebay_hub *handle, uint64_t peer);

// Prepares a wait in `poll`. 1: there is nothing yet; wait until the descriptor is readable, and try again. 0: there is something, or the
// hub is closed; do not wait.
int forebay_hub_arm(struct forebay_hub *handle);

// The descriptor for `forebay_hub_arm`. It belongs to the hub: do not read or close it.
int forebay_hub_descriptor(struct forebay_hub *handle);

// Ends all lanes. Calls that wait return `FOREBAY_CLOSED`.
int forebay_hub_close(struct forebay_hub *handle);

// Ends the hub.
int forebay_hub_destroy(struct forebay_hub *handle);

// Makes a lane of `capacity_bytes` to the hub at the other end of a Unix stream socket, and waits until the hub accepts it. The library
// duplicates the socket. Close your own: it would keep the lane open after this process has ended it.
int forebay_lane_attach(int connected,
                        size_t capacity_bytes,
                        int64_t timeout_ns,
                        struct forebay_lane **lane);

// Sends a copy of a message. With a time limit of 0 it never waits: `FOREBAY_FULL`.
int forebay_lane_send(struct forebay_lane *handle, const void *message, size_t len, int64_t timeout_ns);

// The longest message, in bytes.
ptrdiff_t forebay_lane_largest(struct forebay_lane *handle);

// Ends the lane. The hub receives what was sent.
int forebay_lane_destroy(struct forebay_lane *handle);

// Makes a pool. `options` may be null.
int forebay_pool_create(const struct forebay_pool_options *options, struct forebay_pool **pool);

// Takes a packet without data from the pool. With a time limit of 0 it never waits: `FOREBAY_EMPTY`.
int forebay_pool_take(struct forebay_pool *handle, int64_t timeout_ns, struct forebay_packet **packet);

// Returns a packet in the thread that has the pool, which is faster than `forebay_packet_destroy`. `FOREBAY_INVALID`: it is of another
// pool, and unharmed. `FOREBAY_BUSY`: another call uses one of them, and the packet stays.
int forebay_pool_put_back(struct forebay_pool *handle,
                          struct forebay_packet *packet);

// Stores the counts of the pool.
int forebay_pool_count(struct forebay_pool *handle, struct forebay_pool_counts *counts);

// Ends the pool. Its packets stay usable; the memory ends with the last one.
int forebay_pool_destroy(struct forebay_pool *handle);

// The data of the packet's first slot, to be read. Returns its length. Valid until the next call with this packet.
ptrdiff_t forebay_packet_data(struct forebay_packet *handle, const void **data);

// The same, to be written. `FOREBAY_BUSY`: other packets share the bytes, see `forebay_packet_unshare`.
ptrdiff_t forebay_packet_data_mut(struct forebay_packet *handle, void **data);

// The length of all data, also of further slots.
ptrdiff_t forebay_packet_len(struct forebay_packet *handle);

// Copies all data into a buffer of `room` bytes, also that of further slots, and returns its length. `FOREBAY_TOO_LONG`: there is less
// room.
ptrdiff_t forebay_packet_copy(struct forebay_packet *handle,
                              void *buffer,
                              size_t room);

// The number of bytes in front of the data.
ptrdiff_t forebay_packet_headroom(struct forebay_packet *handle);

// The number of bytes after the data.
ptrdiff_t forebay_packet_tailroom(struct forebay_packet *handle);

// Sets the headroom of a packet without data.
int forebay_packet_reserve(struct forebay_packet *handle, uint32_t headroom);

// Adds `n` bytes in front of the data, and stores where they are.
int forebay_packet_push(struct forebay_packet *handle, uint32_t n, void **bytes);

// Removes `n` bytes from the front, and stores where they are. `bytes` may be null.
int forebay_packet_pull(struct forebay_packet *handle, uint32_t n, const void **bytes);

// Adds `n` bytes after the data, and stores where they are.
int forebay_packet_put(struct forebay_packet *handle, uint32_t n, void **bytes);

// Cuts the data to its first `len` bytes.
int forebay_packet_trim(struct forebay_packet *handle, uint32_t len);

// Appends bytes, in further slots of a pool where the packet's has no room.
int forebay_packet_append(struct forebay_packet *handle, struct forebay_pool *more, const void *bytes, size_t len);

// Makes another packet with the same bytes, which are not copied. Neither can be written then.
int forebay_packet_share(struct forebay_packet *handle, struct forebay_packet **other);

// Copies the bytes of a shared packet into a slot of a pool, so that it can be written.
int forebay_packet_unshare(struct forebay_packet *handle, struct forebay_pool *more);

// Stores what is known of the packet.
int forebay_packet_get_facts(struct forebay_packet *handle, struct forebay_packet_facts *facts);

// Sets what is known of the packet.
int forebay_packet_set_facts(struct forebay_packet *handle, const struct forebay_packet_facts *facts);

// Returns the packet to its pool, from any thread.
int forebay_packet_destroy(struct forebay_packet *handle);

// Returns the few slots that this thread keeps after it has returned packets. A thread does so by itself when it ends.
int forebay_packet_return_idle(void);

// Makes a queue between threads, and stores its ends. `options` may be null.
int forebay_queue_create(const struct forebay_queue_options *options,
                         struct forebay_sender **sender,
                         struct forebay_receiver **receiver);

// Makes another receiving end. A queue between threads refuses messages once its last receiving end is destroyed.
int forebay_receiver_clone(struct forebay_receiver *handle, struct forebay_receiver **clone);

// Copies the next message into a buffer of `room` bytes, and returns its length. `received` may be null. With a time limit of 0 it does
// not wait for a message (`FOREBAY_EMPTY`), but for up to 10 ms for a thread that has a lock of the queue (`FOREBAY_TIMED_OUT`). `FOREBAY_TOO_LONG`: the message stays in the queue, and `received` has its length.
ptrdiff_t forebay_receiver_receive(struct forebay_receiver *handle,
                                   void *buffer,
                                   size_t room,
                                   int64_t timeout_ns,
                                   struct forebay_received *received);

// Lends the next message in place. Its room is reused once the loan is released, and all room before it.
int forebay_receiver_take(struct forebay_receiver *handle,
                          int64_t timeout_ns,
                          struct forebay_message *message,
                          struct forebay_loan **loan);

// Lends up to `max` messages in place, and returns their number. It waits for the first one. They have one loan.
ptrdiff_t forebay_receiver_take_burst(struct forebay_receiver *handle,
                                      int64_t timeout_ns,
                                      struct forebay_message *messages,
                                      size_t max,
                                      struct forebay_loan **loan);

// Gives back what was taken from a queue. The ends may be destroyed before or after it.
int forebay_loan_release(struct forebay_loan *handle);

// The longest message that the queue accepts, in bytes: a buffer of this size has room for each.
ptrdiff_t forebay_receiver_largest(struct forebay_receiver *handle);

// Closes the queue for all ends, as `forebay_sender_close` does.
int forebay_receiver_close(struct forebay_receiver *handle);

// Stores the counts of the queue, as `forebay_sender_stats` does.
int forebay_receiver_stats(struct forebay_receiver *handle, struct forebay_queue_stats *stats);

// Makes a watch that reports messages. For a queue between processes it starts a thread, which ends after the watch.
int forebay_receiver_watch(struct forebay_receiver *handle, struct forebay_watch **watch);

// Ends this end.
int forebay_receiver_destroy(struct forebay_receiver *handle);

// Opens a file for records of any length, or makes it. What a crash left at its end is cut off. `options` may be null.
int forebay_appender_open(const char *path,
                          const struct forebay_appender_options *options,
                          struct forebay_appender **appender);

// The same for records that all have `record_size` bytes; `record_bytes` of the options has no effect. 0: records as those that the file
// has; in a file without records they have any length, so `record_bytes` must be possible. `FOREBAY_INVALID`: the file has records of
// another size.
int forebay_appender_open_sized(const char *path,
                                uint32_t record_size,
                                const struct forebay_appender_options *options,
                                struct forebay_appender **appender);

// The size of every record in bytes; 0: they have any length.
int64_t forebay_appender_record_size(struct forebay_appender *handle);

// Appends a copy of a record. `FOREBAY_FULL`: it was dropped and counted. `FOREBAY_INVALID`: records have another size.
int forebay_appender_append(struct forebay_appender *handle, const void *record, size_t len);

// Appends copies of `count` records of `forebay_appender_record_size` bytes, and returns how many were accepted; others were dropped and
// counted.
ptrdiff_t forebay_appender_append_burst(struct forebay_appender *handle,
                                        const void *records,
                                        size_t count);

// Lends the room of the next record, of `len` bytes, to be filled in place: it has bytes of earlier records, or zeros. It is valid until the
// next call with this appender. `forebay_appender_commit` appends the record, and any other call abandons it. `FOREBAY_FULL`: a record was
// dropped and counted.
int forebay_appender_reserve(struct forebay_appender *handle,
                             size_t len,
                             void **record);

// Appends the record that `forebay_appender_reserve` lent. `FOREBAY_INVALID`: none is lent.
int forebay_appender_commit(struct forebay_appender *handle);

// Has the accepted records written now.
int forebay_appender_flush(struct forebay_appender *handle);

// Waits until all accepted records are durable. `FOREBAY_TIMED_OUT`: they are not yet.
int forebay_appender_wait_durable(struct forebay_appender *handle, int64_t timeout_ns);

// Stores the counts.
int forebay_appender_count(struct forebay_appender *handle, struct forebay_appender_totals *totals);

// Writes what is left, ends the appender, and stores the final counts. `totals` may be null. An error is that of the file: the counts say
// what was written. `FOREBAY_BUSY`, another call uses it, and `FOREBAY_INVALID`, the `size` is wrong: it stays open.
int forebay_appender_close(struct forebay_appender *handle,
                           struct forebay_appender_totals *totals);

// Opens a file of records, of any length or of one.
int forebay_record_reader_open(const char *path, struct forebay_record_reader **reader);

// Lends the next record. It is valid until the next call with this reader. `FOREBAY_CLOSED`: the file has ended. `FOREBAY_DAMAGED`: a
// block is damaged or incomplete, and the records before it were returned; the last error says where.
int forebay_record_reader_next(struct forebay_record_reader *handle,
                               struct forebay_bytes *record);

// The size of every record of the file in bytes; 0: they have any length. `FOREBAY_CLOSED` and `FOREBAY_DAMAGED`: the file has no record.
int64_t forebay_record_reader_record_size(struct forebay_record_reader *handle);

// Ends the reader.
int forebay_record_reader_destroy(struct forebay_record_reader *handle);

// Makes a ring, and stores its ends. `options` may be null: a ring of 1024 bytes.
int forebay_ring_create(const struct forebay_ring_options *options,
                        struct forebay_ring_producer **producer,
                        struct forebay_ring_consumer **consumer);

// Pushes one element: a copy of `element_size` bytes. `FOREBAY_FULL`: there is no room now. `FOREBAY_CLOSED`: there is none, and the consumer
// is gone. The producer looks for the consumer only when it has no room: until then, elements are accepted, and end with the ring.
int forebay_ring_push(struct forebay_ring_producer *handle,
                      const void *element);

// Pushes one element, and waits for room. With a time limit of 0 it never waits: `FOREBAY_FULL`. `FOREBAY_CLOSED`: there is no room, and the
// consumer is gone, or goes during the wait.
int forebay_ring_push_wait(struct forebay_ring_producer *handle,
                           const void *element,
                           int64_t timeout_ns);

// Pushes as many of `count` elements as there is room for, and returns their number. If there is room for none, it returns `FOREBAY_FULL` or
// `FOREBAY_CLOSED`, as `forebay_ring_push`.
ptrdiff_t forebay_ring_push_burst(struct forebay_ring_producer *handle,
                                  const void *elements,
                                  size_t count);

// Lends vacant slots to be filled in place, up to `count`, and returns their number; they are one array. They are published by
// `forebay_ring_commit`, and valid until the next call with this end. If no slot is vacant, it returns `FOREBAY_FULL` or `FOREBAY_CLOSED`, as
// `forebay_ring_push`.
ptrdiff_t forebay_ring_reserve(struct forebay_ring_producer *handle,
                               size_t count,
                               void **slots);

// Publishes the first `count` of the slots that were reserved. `FOREBAY_INVALID`: there are fewer. `FOREBAY_CLOSED`: the consumer is gone.
int forebay_ring_commit(struct forebay_ring_producer *handle,
                        size_t count);

// Waits until `count` slots are vacant (at most the capacity), and returns how many are. With a time limit of 0 it never waits:
// `FOREBAY_FULL`. `FOREBAY_CLOSED`: fewer are vacant, and the consumer is gone.
ptrdiff_t forebay_ring_wait_vacant(struct forebay_ring_producer *handle,
                                   size_t count,
                                   int64_t timeout_ns);

// The number of vacant slots.
ptrdiff_t forebay_ring_vacant(struct forebay_ring_producer *handle);

// The number of elements pushed since the ring was made.
int64_t forebay_ring_pushed(struct forebay_ring_producer *handle);

// Prepares a wait for a vacant slot in `poll`. 1: there is none yet; wait until the descriptor is readable (not writable), and try again. 0: there
// is, or the other end is gone; do not wait.
int forebay_ring_producer_arm(struct forebay_ring_producer *handle);

// The descriptor for `forebay_ring_producer_arm`. It belongs to the end: do not read or close it.
int forebay_ring_producer_descriptor(struct forebay_ring_producer *handle);

// Ends this end. The consumer gets what is in the ring, and then `FOREBAY_CLOSED`.
int forebay_ring_producer_destroy(struct forebay_ring_producer *handle);

// Pops one element into `element`. `FOREBAY_EMPTY`: there is none now. `FOREBAY_CLOSED`: the producer is gone, and no element is left.
int forebay_ring_pop(struct forebay_ring_consumer *handle,
                     void *element);

// Pops one element, and waits for it. With a time limit of 0 it never waits: `FOREBAY_EMPTY`.
int forebay_ring_pop_wait(struct forebay_ring_consumer *handle, void *element, int64_t timeout_ns);

// Pops up to `count` elements into an array, and returns their number. If there is none, it returns `FOREBAY_EMPTY` or `FOREBAY_CLOSED`, as
// `forebay_ring_pop`.
ptrdiff_t forebay_ring_pop_burst(struct forebay_ring_consumer *handle,
                                 void *elements,
                                 size_t count);

// Lends up to `count` elements to be read in place, and returns their number; they are one array. They stay in the ring until
// `forebay_ring_release`, and are valid until the next call with this end.
ptrdiff_t forebay_ring_peek(struct forebay_ring_consumer *handle,
                            size_t count,
                            const void **elements);

// Releases the first `count` elements, and returns how many there were.
ptrdiff_t forebay_ring_release(struct forebay_ring_consumer *handle, size_t count);

// Waits until there are `count` elements (at most the capacity), or the producer is gone, and returns how many there are.
ptrdiff_t forebay_ring_wait_filled(struct forebay_ring_consumer *handle,
                                   size_t count,
                                   int64_t timeout_ns);

// The number of elements in the ring.
ptrdiff_t forebay_ring_len(struct forebay_ring_consumer *handle);

// The number of elements popped or released since the ring was made.
int64_t forebay_ring_popped(struct forebay_ring_consumer *handle);

// Prepares a wait for an element in `poll`. 1: there is none yet; wait until the descriptor is readable, and try again. 0: there
// is, or the other end is gone; do not wait.
int forebay_ring_consumer_arm(struct forebay_ring_consumer *handle);

// The descriptor for `forebay_ring_consumer_arm`. It belongs to the end: do not read or close it.
int forebay_ring_consumer_descriptor(struct forebay_ring_consumer *handle);

// Ends this end. The producer gets `FOREBAY_CLOSED` once the ring is full.
int forebay_ring_consumer_destroy(struct forebay_ring_consumer *handle);

// Makes another sending end. A queue between threads closes when its last sending end is destroyed.
int forebay_sender_clone(struct forebay_sender *handle, struct forebay_sender **clone);

// Sends a copy of a message. With a time limit of 0 it does not wait for room (`FOREBAY_FULL`), but for up to 10 ms for a thread that has
// a lock of the queue (`FOREBAY_TIMED_OUT`).
int forebay_sender_send(struct forebay_sender *handle,
                        const void *message,
                        size_t len,
                        int64_t timeout_ns);

// Sends copies of as many of `count` messages as there is room for, in order, without waiting, and returns their number.
ptrdiff_t forebay_sender_send_burst(struct forebay_sender *handle,
                                    const struct forebay_bytes *messages,
                                    size_t count);

// Lends room for a message of `len` bytes in the queue, to be filled in place and sent by `forebay_reservation_commit`. Receivers get the
// messages in the order of reservations, so that later messages wait for this one.
int forebay_sender_reserve(struct forebay_sender *handle,
                           size_t len,
                           int64_t timeout_ns,
                           struct forebay_room *room,
                           struct forebay_reservation **reservation);

// Sends the message that the program has filled in, and ends the reservation. `FOREBAY_BUSY`: another call used the handle, and the
// reservation stays.
int forebay_reservation_commit(struct forebay_reservation *handle);

// Ends the reservation without a message: receivers pass over it.
int forebay_reservation_abandon(struct forebay_reservation *handle);

// The longest message that the queue accepts, in bytes.
ptrdiff_t forebay_sender_largest(struct forebay_sender *handle);

// Closes the queue for all ends: receivers get what is in it, and then `FOREBAY_CLOSED`. Calls that wait return.
// It waits while a stopped process holds a lock of the queue.
int forebay_sender_close(struct forebay_sender *handle);

// Stores the counts of the queue. `FOREBAY_TIMED_OUT`: a stopped process has held a lock of the queue for a second.
int forebay_sender_stats(struct forebay_sender *handle, struct forebay_queue_stats *stats);

// Makes a watch that reports room for a message of `len` bytes. For a queue between processes it starts a thread, which ends after the
// watch.
int forebay_sender_watch(struct forebay_sender *handle,
                         size_t len,
                         struct forebay_watch **watch);

// Ends this end.
int forebay_sender_destroy(struct forebay_sender *handle);

// Makes a queue between processes of one user, and attaches to it. It keeps its name until it is removed. A null name: it has none, and
// others attach by its descriptor. `options` may be null.
int forebay_shared_queue_create(const char *name,
                                const struct forebay_queue_options *options,
                                struct forebay_shared_queue **queue);

// Attaches to the queue of this name.
int forebay_shared_queue_attach(const char *name, struct forebay_shared_queue **queue);

// Attaches to a queue by a descriptor that was inherited or received from another process. The library duplicates it.
int forebay_shared_queue_from_descriptor(int number, struct forebay_shared_queue **queue);

// The descriptor by which other processes attach. It belongs to the queue: do not close it.
int forebay_shared_queue_descriptor(struct forebay_shared_queue *handle);

// Makes a sending end.
int forebay_shared_queue_sender(struct forebay_shared_queue *handle, struct forebay_sender **sender);

// Makes a receiving end.
int forebay_shared_queue_receiver(struct forebay_shared_queue *handle, struct forebay_receiver **receiver);

// The number of attached processes.
int forebay_shared_queue_processes(struct forebay_shared_queue *handle);

// Gives the queue up. Its ends stay usable; the process is attached until all have ended.
int forebay_shared_queue_destroy(struct forebay_shared_queue *handle);

// Stores the names of this user's queues, each with a zero at its end, in a buffer of `room` bytes. Returns the bytes that all need; the
// buffer has only whole names, and is left as it is if there is not room for all.
ptrdiff_t forebay_shared_queue_list(char *buffer,
                                    size_t room);

// Removes the name of a queue. Processes that are attached stay attached.
int forebay_shared_queue_remove(const char *name);

// The version of the library, such as "0.1.0".
const char *forebay_version(void);

// The number of the interface that the library has: `FOREBAY_INTERFACE` of its header.
uint32_t forebay_interface(void);

// A sentence for a code. It exists as long as the library.
const char *forebay_strerror(int code);

// What failed last in this thread: the object, the attempt, the cause and advice. Valid until a function fails in this thread again.
const char *forebay_last_error(void);

// The `errno` of the last failure in this thread; 0 if the system did not cause it.
int forebay_last_errno(void);

// Makes a stream, and stores its ends. `options` may be null.
int forebay_stream_create(const struct forebay_stream_options *options,
                          struct forebay_stream_writer **writer,
                          struct forebay_stream_reader **reader);

// Pushes as many bytes as there is room for, and returns their number. `FOREBAY_FULL`: there is no room now. `FOREBAY_CLOSED`: the
// stream accepts no more.
ptrdiff_t forebay_stream_push(struct forebay_stream_writer *handle,
                              const void *bytes,
                              size_t len);

// Waits until there is room for at least one byte, and returns for how many. `FOREBAY_CLOSED`: the stream accepts no more.
ptrdiff_t forebay_stream_wait_vacant(struct forebay_stream_writer *handle,
                                     int64_t timeout_ns);

// Lends up to `count` bytes of room to be filled in place, and returns their number. They are published by `forebay_stream_commit`, and
// valid until the next call with this end.
ptrdiff_t forebay_stream_reserve(struct forebay_stream_writer *handle,
                                 size_t count,
                                 void **room);

// Publishes the first `count` bytes of the room that was reserved. `FOREBAY_INVALID`: there are fewer.
int forebay_stream_commit(struct forebay_stream_writer *handle, size_t count);

// Ends the stream: the reader gets what is in it, and then the end.
int forebay_stream_close(struct forebay_stream_writer *handle);

// Ends the stream with an error: the reader gets what is in it, and then the error. Its reason is a code below 0, and a text that may be
// null; or 0 and null for no reason. The first reason stays.
int forebay_stream_fail(struct forebay_stream_writer *handle,
                        int code,
                        const char *text);

// Stores the code of the reason for which either end failed the stream; 0 without one. `forebay_last_error` then has its text.
int forebay_stream_writer_reason(struct forebay_stream_writer *handle,
                                 int *reason);

// The number of bytes for which there is room.
ptrdiff_t forebay_stream_vacant(struct forebay_stream_writer *handle);

// The number of bytes pushed since the stream was made.
int64_t forebay_stream_pushed(struct forebay_stream_writer *handle);

// Prepares a wait for room in `poll`. 1: there is none yet; wait until the descriptor is readable (not writable), and try again. 0: there
// is room, or the stream has ended; do not wait.
int forebay_stream_writer_arm(struct forebay_stream_writer *handle);

// The descriptor for `forebay_stream_writer_arm`. It belongs to the end: do not read or close it.
int forebay_stream_writer_descriptor(struct forebay_stream_writer *handle);

// Ends this end. Without `forebay_stream_close` before, the reader gets `FOREBAY_STREAM_WRITER_GONE`.
int forebay_stream_writer_destroy(struct forebay_stream_writer *handle);

// Lends all bytes in the stream, and returns their number. They are one array, stay in the stream until `forebay_stream_consume`, and
// are valid until the next call with this end. `FOREBAY_EMPTY`: there is none now. `FOREBAY_CLOSED`: there will be none any more; see
// `forebay_stream_ending`.
ptrdiff_t forebay_stream_peek(struct forebay_stream_reader *handle,
                              const void **bytes);

// Releases the first `count` bytes, and returns how many there were.
ptrdiff_t forebay_stream_consume(struct forebay_stream_reader *handle, size_t count);

// Pops up to `len` bytes into `target`, and returns their number.
ptrdiff_t forebay_stream_pop(struct forebay_stream_reader *handle, void *target, size_t len);

// Waits until there is at least one byte, and returns how many there are. `FOREBAY_CLOSED`: there will be none any more.
ptrdiff_t forebay_stream_wait_filled(struct forebay_stream_reader *handle,
                                     int64_t timeout_ns);

// How the stream has ended: one of `enum forebay_stream_end`. Bytes may still be in it.
int forebay_stream_ending(struct forebay_stream_reader *handle);

// Ends the stream with an error: the writer can push no more. The reason is as in `forebay_stream_fail`.
int forebay_stream_reader_fail(struct forebay_stream_reader *handle, int code, const char *text);

// Stores the code of the reason for which either end failed the stream; 0 without one. `forebay_last_error` then has its text.
int forebay_stream_reader_reason(struct forebay_stream_reader *handle,
                                 int *reason);

// The number of bytes in the stream.
ptrdiff_t forebay_stream_buffered(struct forebay_stream_reader *handle);

// The number of bytes popped or released since the stream was made.
int64_t forebay_stream_popped(struct forebay_stream_reader *handle);

// Prepares a wait for bytes in `poll`. 1: there are none yet; wait until the descriptor is readable, and try again. 0: there are some,
// or the stream has ended; do not wait.
int forebay_stream_reader_arm(struct forebay_stream_reader *handle);

// The descriptor for `forebay_stream_reader_arm`. It belongs to the end: do not read or close it.
int forebay_stream_reader_descriptor(struct forebay_stream_reader *handle);

// Ends this end. The writer can push no more.
int forebay_stream_reader_destroy(struct forebay_stream_reader *handle);

// Fills a view of this end, for `forebay_ring_push_inline`, and wakes the consumer if it waits for what the view has pushed. The view is
// valid until the end is destroyed. `FOREBAY_INVALID`: the elements have another size.
int forebay_ring_producer_sync(struct forebay_ring_producer *handle,
                               size_t element_size,
                               struct forebay_ring_producer_view *view);

// Fills a view of this end, for `forebay_ring_pop_inline`, and wakes the producer if it waits for what the view has popped. The view is
// valid until the end is destroyed. `FOREBAY_INVALID`: the elements have another size.
int forebay_ring_consumer_sync(struct forebay_ring_consumer *handle,
                               size_t element_size,
                               struct forebay_ring_consumer_view *view);

// Fills a view of this end, for `forebay_stream_push_inline`, and wakes the reader if it waits for what the view has pushed. The view is
// valid until the end is destroyed.
int forebay_stream_writer_sync(struct forebay_stream_writer *handle,
                               struct forebay_stream_writer_view *view);

// Fills a view of this end, for `forebay_stream_peek_inline`, and wakes the writer if it waits for what the view has popped. The view is
// valid until the end is destroyed.
int forebay_stream_reader_sync(struct forebay_stream_reader *handle,
                               struct forebay_stream_reader_view *view);

// Makes such memory of at least `len` bytes, all zero. `base` is its start, `view_bytes` the length of a view: whole pages. One thread
// at a time may use it, or threads that agree.
int forebay_mirror_create(size_t len,
                          struct forebay_mirror **mirror,
                          void **base,
                          size_t *view_bytes);

// Unmaps the memory. Nothing may use it any more.
int forebay_mirror_destroy(struct forebay_mirror *mirror);

// Prepares a wait in `poll`. 1: there is nothing yet; wait until the descriptor is readable, and try again. 0: there is something, or the
// queue is closed; do not wait.
int forebay_watch_arm(struct forebay_watch *handle);

// Cancels the request for a signal; one may still be sent.
int forebay_watch_disarm(struct forebay_watch *handle);

// The descriptor for `forebay_watch_arm`. It belongs to the watch: do not read or close it.
int forebay_watch_descriptor(struct forebay_watch *handle);

// Ends the watch.
int forebay_watch_destroy(struct forebay_watch *handle);

// Makes a capture file, or truncates it. `options` may be null.
int forebay_writer_create(const char *path,
                          const struct forebay_writer_options *options,
                          struct forebay_writer **writer);

// Writes to a duplicate of a descriptor from where it is: of a file, a pipe or a socket that blocks. Without a format in `options`, which may
// be null, it writes pcapng. As with `write`, the signal SIGPIPE ends the process if the reader of a pipe is gone, unless it is ignored.
int forebay_writer_open_descriptor(int number,
                                   const struct forebay_writer_options *options,
                                   struct forebay_writer **writer);

// Describes an interface with this link type (1: Ethernet) and name, which may be null, and returns its number for `interface` of packets.
// One that was described before has the same number. Without any, packets have interface 0, which is Ethernet. `FOREBAY_INVALID`: a pcap
// file has one link type.
int forebay_writer_interface(struct forebay_writer *handle,
                             uint16_t link_type,
                             const char *name);

// The same for an interface of a capture, with all that is known of it. The two numbers may differ: interfaces that are alike have one
// number in the file. `FOREBAY_NOT_FOUND`: the capture has none with this number so far.
int forebay_writer_interface_of(struct forebay_writer *handle,
                                struct forebay_capture *capture,
                                uint32_t interface);

// Writes packets of the program: `interface` of each is a number of the file, from `forebay_writer_interface`. For packets of a capture, see
// `forebay_writer_write_from`. A `wire_len` below `len` is taken as `len`. All packets before one that is refused are written:
// `FOREBAY_INVALID`, an unknown interface or direction; `FOREBAY_TOO_LONG`, more than 1000000 bytes. After any other error the file is
// incomplete, and every further call is `FOREBAY_IO`.
int forebay_writer_write(struct forebay_writer *handle,
                         const struct forebay_frame *frames,
                         size_t count);

// Writes packets of a capture, such as those that `forebay_capture_next` has lent, which stay valid. `interface` of each is a number of the
// capture. The file gets a description of each interface before its first packet, and its own number for it. Errors are those of
// `forebay_writer_write`; `FOREBAY_INVALID` also if a pcap file would need a second link type. In the function of `forebay_capture_each` it
// is `FOREBAY_BUSY`: take packets to be written with `forebay_capture_next`.
int forebay_writer_write_from(struct forebay_writer *handle,
                              struct forebay_capture *capture,
                              const struct forebay_frame *frames,
                              size_t count);

// Writes counts of one interface of the file, which the program has counted or which are those of a capture with one interface: what it has
// received, and what was lost. A pcap file has none.
int forebay_writer_counts(struct forebay_writer *handle,
                          uint32_t interface,
                          uint64_t time_ns,
                          const struct forebay_counts *counts);

// Writes the counts of a capture's interfaces, usually after `forebay_capture_finish`. Interfaces that are alike, also those of several
// captures, are one in the file, with the sum of their counts. Counts of the same capture replace its earlier ones. A source with one interface, and `any`, has counts of
// its own; those of a file are the ones that it records. `FOREBAY_UNSUPPORTED`: it has several interfaces, and counts their packets
// together, or it is a file that records no counts; nothing is written.
int forebay_writer_counts_from(struct forebay_writer *handle,
                               struct forebay_capture *capture,
                               uint64_t time_ns);

// Hands all packets to the operating system, so that they survive the end of this process.
int forebay_writer_flush(struct forebay_writer *handle);

// Stores the counts so far.
int forebay_writer_count(struct forebay_writer *handle, struct forebay_writer_totals *totals);

// Writes what is left, ends the writer, and stores its counts. `totals` may be null. An error is that of the file: the counts say what
// was written. `FOREBAY_BUSY`, another call uses it, and `FOREBAY_INVALID`, the `size` is wrong: it stays open.
int forebay_writer_close(struct forebay_writer *handle,
                         struct forebay_writer_totals *totals);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FOREBAY_H */
