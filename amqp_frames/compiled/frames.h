/* Frames in bytes and columns: the loops over messages, without Python in them.

   The Python in amqp_frames/messages/ and amqp_frames/decoder.py is the specification. Nothing here
   judges: whatever is not plain ends a run, and the Python goes on frame by frame.

   Octets come from strangers. All reading of them goes through `Octets`, which knows how many are
   left, all writing through `Room`, which knows how much is free. Positions are size_t, and no
   buffer has more than UINT32_MAX octets, so no sum of a position and a size on the wire wraps. */
#ifndef LEVERET_FRAMES_H
#define LEVERET_FRAMES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if SIZE_MAX < UINT64_MAX
#error "sums of 32-bit sizes need a size_t of 64 bits"
#endif

/* --- Reading and writing */

typedef struct {
    const uint8_t *at;
    size_t left;
} Octets;

typedef struct {
    uint8_t *at;
    size_t left;
} Room;

static inline uint16_t be16(const uint8_t *p) { return (uint16_t)((uint16_t)p[0] << 8 | p[1]); }

static inline uint32_t be32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static inline uint64_t be64(const uint8_t *p) { return (uint64_t)be32(p) << 32 | be32(p + 4); }

/* The octets in octets[start:start + count]; none, with `at` NULL, if these are not all there. */
static inline Octets part(Octets octets, size_t start, size_t count) {
    Octets found = {NULL, 0};
    if (start <= octets.left && count <= octets.left - start) {
        found.at = octets.at + start;
        found.left = count;
    }
    return found;
}

static inline int skip(Octets *octets, size_t count) {
    if (count > octets->left) return 0;
    octets->at += count;
    octets->left -= count;
    return 1;
}

static inline int skip_short_string(Octets *octets) {
    return octets->left && skip(octets, 1 + (size_t)octets->at[0]);
}

/* A value behind its length of four octets. */
static inline int read_long_string(Octets *octets, Octets *value) {
    if (octets->left < 4) return 0;
    *value = part(*octets, 4, be32(octets->at));
    return value->at != NULL && skip(octets, 4 + value->left);
}

static inline int put(Room *room, const void *octets, size_t count) {
    if (count > room->left) return 0;
    memcpy(room->at, octets, count);
    room->at += count;
    room->left -= count;
    return 1;
}

static inline int put_be(Room *room, uint64_t value, size_t count) {
    uint8_t octets[8];
    for (size_t i = 0; i < count; i++) octets[i] = (uint8_t)(value >> (8 * (count - 1 - i)));
    return put(room, octets, count);
}

/* --- Frames */

enum {
    FRAME_METHOD = 1,
    FRAME_HEADER = 2,
    FRAME_BODY = 3,
    FRAME_END = 0xCE,
    FRAME_HEADER_BYTES = 7,
    EMPTY_FRAME_BYTES = 8,
    CONTENT_HEADER_BYTES = 12,
    PUBLISH_IDS = 0x003C0028,
    ACK_IDS = 0x003C0050,
    ACK_FRAME_BYTES = 21,
    /* With no names and no properties. */
    METHOD_FRAME_BYTES_MIN = 17,
    HEADER_FRAME_BYTES_MIN = 22,
    PUBLISH_BYTES_MIN = METHOD_FRAME_BYTES_MIN + HEADER_FRAME_BYTES_MIN
};

static inline int put_frame_header(Room *room, unsigned kind, uint16_t channel, size_t bytes) {
    return put_be(room, kind, 1) && put_be(room, channel, 2) && put_be(room, bytes, 4);
}

static inline int put_frame_end(Room *room) { return put_be(room, FRAME_END, 1); }

/* --- Field tables (amqp_frames/values/field_table.py) */

enum { HAS_LENGTH = 254, IS_NESTED = 255, NESTING_DEPTH_MAX = 64 };

/* Octets that a value takes with its tag. 0: no such tag. */
static inline uint8_t value_bytes(uint8_t tag) {
    switch (tag) {
        case 'V': return 1;
        case 't': case 'b': case 'B': return 2;
        case 's': case 'u': return 3;
        case 'I': case 'i': case 'f': return 5;
        case 'D': return 6;
        case 'l': case 'L': case 'd': case 'T': return 9;
        case 'S': case 'x': return HAS_LENGTH;
        case 'F': case 'A': return IS_NESTED;
        default: return 0;
    }
}

/* Are these a table's fields, or an array's values, which have no names? */
static int fields_are_sound(Octets fields, int are_named, int depth) {
    while (fields.left) {
        if (are_named && !skip_short_string(&fields)) return 0;
        if (!fields.left) return 0;
        const uint8_t tag = fields.at[0], bytes = value_bytes(tag);
        if (bytes == 0) return 0;
        if (bytes < HAS_LENGTH) {
            if (!skip(&fields, bytes)) return 0;
            continue;
        }
        Octets value;
        if (!skip(&fields, 1) || !read_long_string(&fields, &value)) return 0;
        if (bytes == IS_NESTED) {
            if (depth >= NESTING_DEPTH_MAX) return 0;
            if (!fields_are_sound(value, tag == 'F', depth + 1)) return 0;
        }
    }
    return 1;
}

/* --- Properties (amqp_frames/properties.py) */

/* The delivery mode of these flags and values, 0 when absent; -1 if they are malformed. */
static int delivery_mode_of(Octets properties) {
    Octets rest = properties;
    int mode = 0;
    if (!skip(&rest, 2)) return -1;
    const unsigned high = properties.at[0], low = properties.at[1];
    if (high & 0x80 && !skip_short_string(&rest)) return -1; /* content_type */
    if (high & 0x40 && !skip_short_string(&rest)) return -1; /* content_encoding */
    if (high & 0x20) {                                       /* headers */
        Octets fields;
        if (!read_long_string(&rest, &fields) || !fields_are_sound(fields, 1, 1)) return -1;
    }
    if (high & 0x10) { /* delivery_mode */
        if (!rest.left) return -1;
        mode = rest.at[0];
        skip(&rest, 1);
    }
    if (high & 0x08 && !skip(&rest, 1)) return -1;           /* priority */
    if (high & 0x04 && !skip_short_string(&rest)) return -1; /* correlation_id */
    if (high & 0x02 && !skip_short_string(&rest)) return -1; /* reply_to */
    if (high & 0x01 && !skip_short_string(&rest)) return -1; /* expiration */
    if (low & 0x80 && !skip_short_string(&rest)) return -1;  /* message_id */
    if (low & 0x40 && !skip(&rest, 8)) return -1;            /* timestamp */
    if (low & 0x20 && !skip_short_string(&rest)) return -1;  /* type */
    if (low & 0x10 && !skip_short_string(&rest)) return -1;  /* user_id */
    if (low & 0x08 && !skip_short_string(&rest)) return -1;  /* app_id */
    if (low & 0x04 && !skip_short_string(&rest)) return -1;  /* cluster_id */
    return rest.left ? -1 : mode;
}

static int contains(Octets octets, const char *wanted, size_t bytes) {
    while (octets.left >= bytes) {
        const uint8_t *found = memchr(octets.at, wanted[0], octets.left - bytes + 1);
        if (found == NULL) return 0;
        if (!memcmp(found, wanted, bytes)) return 1;
        skip(&octets, (size_t)(found - octets.at) + 1);
    }
    return 0;
}

/* Do these properties, which are sound, concern the broker? */
static int must_look(Octets properties, int mode) {
    const unsigned high = properties.at[0], low = properties.at[1];
    if (high & 0x10 && mode != 1 && mode != 2) return 1;
    if (high & 0x01 || low & 0x10) return 1;
    if (high & 0x02 && contains(properties, "\x15" "amq.rabbitmq.reply-to", 22)) return 1;
    if (!(high & 0x20)) return 0;
    return contains(properties, "\x02" "CC", 3) || contains(properties, "\x03" "BCC", 4);
}

/* --- Distinct keys

   Numbers of keys by their octets. A client chooses the octets, so the hash is SipHash-1-3 with a
   random seed, as Python's own is. */

typedef struct {
    uint64_t k0, k1;
} Seed;

static inline uint64_t rotated(uint64_t value, int bits) {
    return value << bits | value >> (64 - bits);
}

static inline void sip_round(uint64_t v[4]) {
    v[0] += v[1]; v[1] = rotated(v[1], 13) ^ v[0]; v[0] = rotated(v[0], 32);
    v[2] += v[3]; v[3] = rotated(v[3], 16) ^ v[2];
    v[0] += v[3]; v[3] = rotated(v[3], 21) ^ v[0];
    v[2] += v[1]; v[1] = rotated(v[1], 17) ^ v[2]; v[2] = rotated(v[2], 32);
}

static uint64_t sip_hash(Octets octets, Seed seed) {
    uint64_t v[4] = {seed.k0 ^ 0x736f6d6570736575u, seed.k1 ^ 0x646f72616e646f6du,
                     seed.k0 ^ 0x6c7967656e657261u, seed.k1 ^ 0x7465646279746573u};
    uint64_t last = (uint64_t)octets.left << 56, word;
    for (; octets.left >= 8; skip(&octets, 8)) {
        memcpy(&word, octets.at, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    word = 0;
    memcpy(&word, octets.at, octets.left);
    last |= word;
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    sip_round(v);
    sip_round(v);
    sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

typedef struct {
    /* Where each lies, by number; as much room as there are messages. */
    Octets *octets;
    uint32_t count;
    /* 1 + number, or 0: twice as many as there may be keys or more, a power of two, all 0. */
    uint32_t *slots;
    size_t slot_mask;
    Seed seed;
} Keys;

static inline int are_equal(Octets one, Octets other) {
    return one.left == other.left && !memcmp(one.at, other.at, one.left);
}

/* The number of the key; keys are numbered in the order they come. `last` is that of the one
   before, which most often comes again. */
static uint32_t number_of(Keys *keys, Octets key, uint32_t last) {
    if (last < keys->count && are_equal(keys->octets[last], key)) return last;
    size_t slot = (size_t)sip_hash(key, keys->seed) & keys->slot_mask;
    while (keys->slots[slot]) {
        const uint32_t number = keys->slots[slot] - 1;
        if (are_equal(keys->octets[number], key)) return number;
        slot = (slot + 1) & keys->slot_mask;
    }
    keys->octets[keys->count] = key;
    keys->slots[slot] = ++keys->count;
    return keys->count - 1;
}

/* --- Runs of publishes (PublishRun in amqp_frames/messages/publishes.py) */

typedef struct {
    Octets wire;
    uint16_t channel;
    uint32_t frame_max_bytes;
    uint64_t body_bytes_max;
    /* Room for so many messages in each column, and in `keys.octets`. */
    size_t room;
    uint32_t *starts, *headers, *ends, *numbers, *flagged;
    uint8_t *persistent;
    Keys keys;
    /* Found. */
    size_t count, flagged_count;
    uint32_t largest;
    /* Bytes from the end of the run on that make a look at the next publish worthwhile, if it
       may be a plain one that is not whole; else 0. */
    uint64_t needed_bytes;
} Run;

typedef struct {
    size_t header, end, largest;
    Octets key;
    int mode, is_flagged;
} Publish;

static inline int is_end(const Run *run, size_t end) {
    return run->wire.at[end - 1] == FRAME_END;
}

/* The buffer ends within the frame at `at`, or before it: may it still be the right one? */
static void await_frame(Run *run, size_t position, size_t at, unsigned kind) {
    const Octets head = part(run->wire, at, FRAME_HEADER_BYTES);
    uint64_t end = (uint64_t)at + EMPTY_FRAME_BYTES;
    if (head.at != NULL) {
        const uint32_t bytes = be32(head.at + 3);
        if (head.at[0] != kind || be16(head.at + 1) != run->channel) return;
        if (bytes > run->frame_max_bytes) return;
        end += bytes;
    }
    if (end > run->wire.left) run->needed_bytes = end - position;
}

/* Follows body frames from found->end on; `found` has then the end of the last. */
static int scan_body(Run *run, size_t position, uint64_t body_bytes, Publish *found) {
    uint64_t remaining = body_bytes;
    while (remaining) {
        const Octets frame = part(run->wire, found->end, EMPTY_FRAME_BYTES);
        uint32_t bytes = 0;
        if (frame.at != NULL) {
            bytes = be32(frame.at + 3);
            if (frame.at[0] != FRAME_BODY || be16(frame.at + 1) != run->channel) return 0;
            if (!bytes || bytes > remaining || bytes > run->frame_max_bytes) return 0;
        }
        if (frame.at == NULL || bytes > run->wire.left - found->end - EMPTY_FRAME_BYTES) {
            if (remaining == body_bytes) await_frame(run, position, found->end, FRAME_BODY);
            return 0;
        }
        found->end += EMPTY_FRAME_BYTES + (size_t)bytes;
        if (!is_end(run, found->end)) return 0;
        if (bytes + (size_t)EMPTY_FRAME_BYTES > found->largest) {
            found->largest = bytes + (size_t)EMPTY_FRAME_BYTES;
        }
        remaining -= bytes;
    }
    return 1;
}

/* Content header and body of a publish whose method frame ends before found->header. */
static int scan_content(Run *run, size_t position, Publish *found) {
    const size_t header = found->header;
    const Octets head = part(run->wire, header, HEADER_FRAME_BYTES_MIN);
    if (head.at == NULL) {
        await_frame(run, position, header, FRAME_HEADER);
        return 0;
    }
    const uint32_t bytes = be32(head.at + 3);
    const uint64_t body_bytes = be64(head.at + 11);
    if (head.at[0] != FRAME_HEADER || be16(head.at + 1) != run->channel) return 0;
    /* Class 60 and a weight of 0. */
    if (be32(head.at + 7) != 0x003C0000) return 0;
    if (bytes > run->frame_max_bytes || body_bytes > run->body_bytes_max) return 0;
    if (bytes > run->wire.left - header - EMPTY_FRAME_BYTES) {
        run->needed_bytes = (uint64_t)header - position + EMPTY_FRAME_BYTES + bytes;
        return 0;
    }
    if (bytes < CONTENT_HEADER_BYTES + 2) return 0;
    found->end = header + EMPTY_FRAME_BYTES + bytes;
    found->largest = EMPTY_FRAME_BYTES + (size_t)bytes;
    const Octets properties =
        part(run->wire, header + FRAME_HEADER_BYTES + CONTENT_HEADER_BYTES, bytes - CONTENT_HEADER_BYTES);
    if (!is_end(run, found->end) || properties.at == NULL) return 0;
    found->mode = delivery_mode_of(properties);
    if (found->mode < 0 || !scan_body(run, position, body_bytes, found)) return 0;
    found->is_flagged = must_look(properties, found->mode);
    return 1;
}

/* The publish at `position`, if it is whole and plain. */
static int scan_publish(Run *run, size_t position, Publish *found) {
    const Octets head = part(run->wire, position, METHOD_FRAME_BYTES_MIN);
    if (head.at == NULL) return 0;
    const uint32_t bytes = be32(head.at + 3);
    if (head.at[0] != FRAME_METHOD || be16(head.at + 1) != run->channel) return 0;
    if (be32(head.at + 7) != PUBLISH_IDS || bytes > run->frame_max_bytes) return 0;
    if (bytes > run->wire.left - position - EMPTY_FRAME_BYTES) {
        run->needed_bytes = EMPTY_FRAME_BYTES + (uint64_t)bytes;
        return 0;
    }
    /* Ids, a reserved short, two empty names and the bits. */
    if (bytes < METHOD_FRAME_BYTES_MIN - EMPTY_FRAME_BYTES) return 0;
    found->header = position + EMPTY_FRAME_BYTES + bytes;
    if (!is_end(run, found->header)) return 0;
    found->key = part(run->wire, position + FRAME_HEADER_BYTES + 6, bytes - 6);
    Octets names = found->key;
    if (names.at == NULL || !skip_short_string(&names) || !skip_short_string(&names)) return 0;
    return names.left == 1 && scan_content(run, position, found);
}

/* Fills the columns from `position` on; returns where the run ends. */
static size_t scan_publishes(Run *run, size_t position) {
    uint32_t last = 0;
    run->count = run->flagged_count = 0;
    run->largest = 0;
    run->needed_bytes = 0;
    while (run->count < run->room) {
        Publish found;
        if (!scan_publish(run, position, &found)) break;
        const size_t index = run->count++;
        last = number_of(&run->keys, found.key, last);
        run->starts[index] = (uint32_t)position;
        run->headers[index] = (uint32_t)found.header;
        run->ends[index] = (uint32_t)found.end;
        run->numbers[index] = last;
        run->persistent[index] = found.mode == 2;
        if (found.is_flagged) run->flagged[run->flagged_count++] = (uint32_t)index;
        if (found.largest > run->largest) run->largest = (uint32_t)found.largest;
        position = found.end;
    }
    return position;
}

/* --- Runs of basic.ack (decode_acks in amqp_frames/decoder.py) */

/* How many basic.ack of the first one's channel follow each other from `position` on. */
static size_t count_acks(Octets data, size_t position) {
    const uint8_t *first = NULL;
    size_t count = 0;
    for (;; position += ACK_FRAME_BYTES, count++) {
        const Octets frame = part(data, position, ACK_FRAME_BYTES);
        if (frame.at == NULL || frame.at[ACK_FRAME_BYTES - 1] != FRAME_END) return count;
        if (first == NULL) {
            first = frame.at;
            if (first[0] != FRAME_METHOD || be32(first + 3) != 13) return 0;
            if (be32(first + 7) != ACK_IDS) return 0;
        }
        if (memcmp(frame.at, first, 11)) return count;
    }
}

/* The tags and bits of so many acks; 0 if there are not as many. */
static int read_acks(Octets data, size_t position, size_t count, uint64_t *tags, uint8_t *multiples) {
    for (size_t i = 0; i < count; i++, position += ACK_FRAME_BYTES) {
        const Octets frame = part(data, position, ACK_FRAME_BYTES);
        if (frame.at == NULL) return 0;
        tags[i] = be64(frame.at + 11);
        multiples[i] = frame.at[19] & 1;
    }
    return 1;
}

/* --- Deliveries and returns (amqp_frames/messages/deliveries.py) */

/* Messages of a batch, chosen and in order: where each one's content lies, and its key. */
typedef struct {
    Octets wire;
    size_t count;
    const uint32_t *headers, *ends;
    const Octets *keys;
} Contents;

typedef struct {
    uint16_t channel;
    /* Are other channels' numbers in the contents, so that this one's must be written? */
    int has_other_channel;
    /* Of the method's payload all that stands before the tag, or else before the names. */
    Octets begin;
    /* Of deliveries. */
    int has_tag, is_redelivered;
    uint64_t first_tag;
    /* Of returns: the tags of the acks behind them, a tag a message; NULL: none. */
    const uint64_t *acked;
} Outgoing;

static inline size_t method_bytes_of(const Outgoing *out, Octets key) {
    /* The key's last octet is its bits, which are not part of either method. */
    return out->begin.left + (out->has_tag ? 9 : 0) + key.left - 1;
}

/* How many bytes the messages take up; 0 if a place lies outside the wire, or there is none. */
static size_t outgoing_bytes(const Outgoing *out, const Contents *contents) {
    size_t bytes = 0;
    for (size_t i = 0; i < contents->count; i++) {
        const size_t header = contents->headers[i], end = contents->ends[i];
        if (header > end || end > contents->wire.left || !contents->keys[i].left) return 0;
        bytes += EMPTY_FRAME_BYTES + method_bytes_of(out, contents->keys[i]) + end - header;
        if (out->acked != NULL) bytes += ACK_FRAME_BYTES;
    }
    return bytes;
}

/* Writes the channel's number into each of these frames; 0 if they are no row of frames. */
static int renumber_frames(Room frames, uint16_t channel) {
    while (frames.left) {
        if (frames.left < EMPTY_FRAME_BYTES) return 0;
        const size_t bytes = EMPTY_FRAME_BYTES + (size_t)be32(frames.at + 3);
        if (bytes > frames.left) return 0;
        frames.at[1] = (uint8_t)(channel >> 8);
        frames.at[2] = (uint8_t)channel;
        frames.at += bytes;
        frames.left -= bytes;
    }
    return 1;
}

/* A basic.ack or basic.nack. */
static int put_answer(Room *room, uint16_t channel, uint16_t method, uint64_t tag, unsigned bits) {
    return put_frame_header(room, FRAME_METHOD, channel, 13) && put_be(room, 60, 2) &&
           put_be(room, method, 2) && put_be(room, tag, 8) && put_be(room, bits, 1) &&
           put_frame_end(room);
}

/* Writes the messages' frames, which fill the room; 0 if they do not, or are not sound. */
static int put_outgoing(Room *room, const Outgoing *out, const Contents *contents) {
    for (size_t i = 0; i < contents->count; i++) {
        const Octets key = contents->keys[i];
        if (!key.left || contents->headers[i] > contents->ends[i]) return 0;
        const Octets content = part(
            contents->wire, contents->headers[i], contents->ends[i] - contents->headers[i]);
        if (content.at == NULL) return 0;
        if (!put_frame_header(room, FRAME_METHOD, out->channel, method_bytes_of(out, key))) return 0;
        if (!put(room, out->begin.at, out->begin.left)) return 0;
        if (out->has_tag) {
            if (!put_be(room, out->first_tag + i, 8)) return 0;
            if (!put_be(room, out->is_redelivered ? 1 : 0, 1)) return 0;
        }
        if (!put(room, key.at, key.left - 1) || !put_frame_end(room)) return 0;
        const Room written = {room->at, content.left};
        if (!put(room, content.at, content.left)) return 0;
        if (out->has_other_channel && !renumber_frames(written, out->channel)) return 0;
        if (out->acked != NULL && !put_answer(room, out->channel, 80, out->acked[i], 0)) return 0;
    }
    return room->left == 0;
}

/* --- Merging (amqp_frames/messages/merging.py) */

/* One of the batches that are merged. */
typedef struct {
    Octets wire;
    size_t count;
    const uint32_t *starts, *headers, *ends, *keys;
    /* By number in this batch, the number in the merged one. */
    const uint32_t *renumbered;
    size_t distinct_count;
} Part;

/* Columns of the merged batch, from the first of a part's messages on. */
typedef struct {
    uint32_t *starts, *headers, *ends, *keys;
} MergedColumns;

/* Appends the part's messages to the wire, whose next octet is at `position`; returns where they
   end, or SIZE_MAX if a place or a key's number is none, or there is no room. */
static size_t put_merged(Room *room, size_t position, const Part *each, MergedColumns columns) {
    for (size_t i = 0; i < each->count; i++) {
        const size_t start = each->starts[i], header = each->headers[i], end = each->ends[i];
        if (start > header || header > end || each->keys[i] >= each->distinct_count) return SIZE_MAX;
        const Octets message = part(each->wire, start, end - start);
        if (message.at == NULL || end - start > UINT32_MAX - position) return SIZE_MAX;
        if (!put(room, message.at, message.left)) return SIZE_MAX;
        columns.starts[i] = (uint32_t)position;
        columns.headers[i] = (uint32_t)(position + header - start);
        position += message.left;
        columns.ends[i] = (uint32_t)position;
        columns.keys[i] = each->renumbered[each->keys[i]];
    }
    return position;
}

/* --- Rows of indexes (amqp_frames/messages/indexes.py) */

/* The messages of a batch: by message the number of its key, by key the number of its row. */
typedef struct {
    const uint32_t *keys;
    size_t count;
    const uint32_t *row_of_key;
    size_t keys_count;
} Keyed;

/* The next place in a row, and how many more are free. */
typedef struct {
    uint32_t *at;
    size_t left;
} RowRoom;

/* Adds up in `counts` how many messages each of so many rows gets; 0 if a key or a row is none. */
static int count_rows(const Keyed *keyed, size_t *counts, size_t rows) {
    for (size_t i = 0; i < keyed->count; i++) {
        if (keyed->keys[i] >= keyed->keys_count) return 0;
        const size_t row = keyed->row_of_key[keyed->keys[i]];
        if (row >= rows) return 0;
        counts[row]++;
    }
    return 1;
}

static inline int put_index(RowRoom *room, uint32_t index) {
    if (!room->left) return 0;
    *room->at++ = index;
    room->left--;
    return 1;
}

/* Appends each message's index to its row; 0 if a key or a row is none, or a row is full. */
static int put_rows(const Keyed *keyed, RowRoom *rooms, size_t rows) {
    for (size_t i = 0; i < keyed->count; i++) {
        if (keyed->keys[i] >= keyed->keys_count) return 0;
        const size_t row = keyed->row_of_key[keyed->keys[i]];
        if (row >= rows || !put_index(rooms + row, (uint32_t)i)) return 0;
    }
    return 1;
}

/* How many of these have a flag that is not 0; SIZE_MAX if one has none. */
static size_t count_flagged(const uint32_t *indexes, size_t count, Octets flags) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (indexes[i] >= flags.left) return SIZE_MAX;
        found += flags.at[indexes[i]] != 0;
    }
    return found;
}

/* Appends each index to those that are flagged or to the others; those that are flagged have room
   for as many numbers. 0 if an index has no flag, or there is no room. */
static int put_split(const uint32_t *indexes, size_t count, Octets flags, RowRoom *flagged,
                     uint64_t *numbers, uint64_t first_number, RowRoom *others) {
    for (size_t i = 0; i < count; i++) {
        if (indexes[i] >= flags.left) return 0;
        const int is_flagged = flags.at[indexes[i]] != 0;
        if (!put_index(is_flagged ? flagged : others, indexes[i])) return 0;
        if (is_flagged) *numbers++ = first_number + i;
    }
    return 1;
}

/* How many of these are among the chosen; both ascend. */
static size_t count_common(const uint32_t *indexes, size_t count, const uint32_t *chosen, size_t chosen_count) {
    size_t found = 0;
    for (size_t i = 0, at = 0; i < count; i++) {
        while (at < chosen_count && chosen[at] < indexes[i]) at++;
        found += at < chosen_count && chosen[at] == indexes[i];
    }
    return found;
}

/* Appends each index to those among the chosen or to the rest; 0 if there is no room. */
static int put_divided(const uint32_t *indexes, size_t count, const uint32_t *chosen, size_t chosen_count,
                       RowRoom *among, RowRoom *rest) {
    for (size_t i = 0, at = 0; i < count; i++) {
        while (at < chosen_count && chosen[at] < indexes[i]) at++;
        const int is_among = at < chosen_count && chosen[at] == indexes[i];
        if (!put_index(is_among ? among : rest, indexes[i])) return 0;
    }
    return 1;
}

/* Behind the consecutive indexes that begin at this place. */
static size_t range_end(const uint32_t *indexes, size_t count, size_t place) {
    while (++place < count && indexes[place] <= (uint64_t)indexes[place - 1] + 1) continue;
    return place;
}

#endif
