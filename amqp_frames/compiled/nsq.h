/* Commands and messages of NSQ in bytes and columns: the loops over messages, without Python in them.

   The Python in nsq_frames/ is the specification; the rules of frames.h hold here, too. */
#ifndef LEVERET_NSQ_H
#define LEVERET_NSQ_H

#include "frames.h"

/* --- Runs of PUB, MPUB and DPUB (decode_run in nsq_frames/publishes.py) */

enum {
    NAME_BYTES_MAX = 64,
    LINE_BYTES_MAX = 16384,
    DIGITS_MAX = 18,
    /* "MPUB" with a topic of one octet, its size, its count, and one message. */
    MPUB_BYTES_MIN = 20,
    /* The same of "PUB". */
    PUB_BYTES_MIN = 11,
    /* In an MPUB: a size and one octet. */
    MESSAGE_BYTES_MIN = 5
};

typedef struct {
    Octets data;
    /* The one that the run is of. */
    Octets command;
    int has_many, is_delayed;
    uint64_t message_bytes_max, body_bytes_max, delay_ms_max;
    /* Room for so many messages in each column, and for so many commands in `topics.octets`. */
    size_t room, commands_room;
    uint32_t *begins, *ends, *numbers, *delays_ms;
    /* By command, how many messages it has. */
    uint32_t *counts;
    Keys topics;
    /* Found. */
    size_t count, commands;
} Bodies;

/* The line at `position`; none, with `at` NULL, if it does not end in time. */
static Octets line_at(Octets data, size_t position) {
    const Octets none = {NULL, 0};
    if (position >= data.left) return none;
    size_t limit = data.left - position;
    if (limit > LINE_BYTES_MAX) limit = LINE_BYTES_MAX;
    const uint8_t *end = memchr(data.at + position, '\n', limit);
    return end == NULL ? none : part(data, position, (size_t)(end - (data.at + position)));
}

/* Split off the first word of a line; 0 if there is no more. Behind the last one `at` is NULL. */
static int read_word(Octets *line, Octets *word) {
    if (line->at == NULL) return 0;
    *word = *line;
    const uint8_t *blank = line->left ? memchr(line->at, ' ', line->left) : NULL;
    if (blank == NULL) {
        line->at = NULL;
        line->left = 0;
        return 1;
    }
    word->left = (size_t)(blank - line->at);
    return skip(line, word->left + 1);
}

static int is_valid_name(Octets name) {
    static const char EPHEMERAL[] = "#ephemeral";
    const size_t suffix = sizeof EPHEMERAL - 1;
    if (name.left > NAME_BYTES_MAX) return 0;
    if (name.left > suffix && !memcmp(name.at + name.left - suffix, EPHEMERAL, suffix)) name.left -= suffix;
    for (size_t i = 0; i < name.left; i++) {
        const unsigned letter = name.at[i] | 0x20u;
        const int is_plain = (letter >= 'a' && letter <= 'z') || (name.at[i] >= '0' && name.at[i] <= '9') ||
                             name.at[i] == '.' || name.at[i] == '_' || name.at[i] == '-';
        if (!is_plain) return 0;
    }
    return name.left != 0;
}

/* The topic and the delay of a command of this run; 0 if the line is not sound. */
static int read_line(const Bodies *run, Octets line, Octets *topic, uint64_t *delay_ms) {
    Octets word;
    *delay_ms = 0;
    if (line.left && line.at[line.left - 1] == '\r') line.left--;
    if (!read_word(&line, &word) || !are_equal(word, run->command)) return 0;
    if (!read_word(&line, topic) || !is_valid_name(*topic)) return 0;
    if (!run->is_delayed) return 1;
    if (!read_word(&line, &word) || word.left > DIGITS_MAX) return 0;
    for (size_t i = 0; i < word.left; i++) {
        if (word.at[i] < '0' || word.at[i] > '9') return 0;
        *delay_ms = 10 * *delay_ms + (uint64_t)(word.at[i] - '0');
    }
    return *delay_ms <= run->delay_ms_max;
}

/* Note the body whose size is at `at` as that of this message, and return its end; 0 if it is not
   whole and sound. */
static size_t note_body(Bodies *run, size_t index, size_t at) {
    const Octets size = part(run->data, at, 4);
    if (size.at == NULL || index >= run->room) return 0;
    const uint32_t bytes = be32(size.at);
    if (!bytes || bytes > INT32_MAX || bytes > run->message_bytes_max) return 0;
    if (part(run->data, at + 4, bytes).at == NULL) return 0;
    run->begins[index] = (uint32_t)(at + 4);
    run->ends[index] = (uint32_t)(at + 4 + bytes);
    return at + 4 + bytes;
}

/* The same of an MPUB's messages: `count` is how many. */
static size_t note_bodies(Bodies *run, size_t at, uint32_t *count) {
    const Octets head = part(run->data, at, 8);
    if (head.at == NULL || run->body_bytes_max < 4) return 0;
    const uint32_t bytes = be32(head.at);
    *count = be32(head.at + 4);
    if (!bytes || bytes > INT32_MAX || bytes > run->body_bytes_max) return 0;
    if (!*count || *count > INT32_MAX || *count > (run->body_bytes_max - 4) / MESSAGE_BYTES_MIN) return 0;
    size_t end = at + 8;
    for (size_t i = 0; end && i < *count; i++) end = note_body(run, run->count + i, end);
    /* The size of the body may be a lie. */
    return end && end - at - 4 <= run->body_bytes_max ? end : 0;
}

/* Fills the columns from `position` on; returns where the run ends. */
static size_t scan_bodies(Bodies *run, size_t position) {
    uint32_t last = 0;
    run->count = run->commands = 0;
    while (run->commands < run->commands_room) {
        const Octets line = line_at(run->data, position);
        Octets topic;
        uint64_t delay_ms;
        uint32_t count = 1;
        if (line.at == NULL || !read_line(run, line, &topic, &delay_ms)) break;
        const size_t at = position + line.left + 1;
        const size_t end = run->has_many ? note_bodies(run, at, &count) : note_body(run, run->count, at);
        if (!end) break;
        last = number_of(&run->topics, topic, last);
        run->counts[run->commands++] = count;
        for (size_t i = 0; i < count; i++) {
            run->numbers[run->count + i] = last;
            if (run->is_delayed) run->delays_ms[run->count + i] = (uint32_t)delay_ms;
        }
        run->count += count;
        position = end;
    }
    return position;
}

/* --- Bodies as persistent publishes (encode_publishes in nsq_frames/publishes.py) */

enum {
    PUBLISH_CHANNEL = 1,
    BODY_FRAME_BYTES_MAX = 131072 - EMPTY_FRAME_BYTES,
    /* With the exchange's name, of no octets. */
    TOPIC_FRAME_BYTES = 17,
    /* Class, weight, size of the body, flags and delivery mode. */
    PERSISTENT_HEADER_BYTES = 15,
    PERSISTENT_FRAME_BYTES = PERSISTENT_HEADER_BYTES + EMPTY_FRAME_BYTES
};

typedef struct {
    Octets data;
    size_t count;
    const uint32_t *numbers, *begins, *ends;
    const Octets *topics;
    size_t topics_count;
} Publishes;

/* Of the batch, with room for each of the messages. */
typedef struct {
    uint32_t *starts, *headers, *ends;
} PublishPlaces;

/* How many bytes the frames take up; SIZE_MAX if a place lies outside the data, or a topic is none. */
static size_t publishes_bytes(const Publishes *publishes) {
    size_t bytes = 0;
    for (size_t i = 0; i < publishes->count; i++) {
        const size_t number = publishes->numbers[i], begin = publishes->begins[i], end = publishes->ends[i];
        if (number >= publishes->topics_count || publishes->topics[number].left > UINT8_MAX) return SIZE_MAX;
        if (begin > end || end > publishes->data.left) return SIZE_MAX;
        const size_t frames = end == begin ? 1 : (end - begin - 1) / BODY_FRAME_BYTES_MAX + 1;
        bytes += TOPIC_FRAME_BYTES + publishes->topics[number].left + PERSISTENT_FRAME_BYTES;
        bytes += frames * EMPTY_FRAME_BYTES + end - begin;
    }
    return bytes;
}

/* The method, and the content header up to the size of the body. */
static int put_publish(Room *room, Octets topic, size_t body_bytes) {
    return put_frame_header(room, FRAME_METHOD, PUBLISH_CHANNEL, TOPIC_FRAME_BYTES - EMPTY_FRAME_BYTES + topic.left) &&
           put_be(room, PUBLISH_IDS, 4) && put_be(room, 0, 2) && put_be(room, topic.left, 1) &&
           put(room, topic.at, topic.left) && put_be(room, 0, 2) && put_frame_end(room) &&
           put_frame_header(room, FRAME_HEADER, PUBLISH_CHANNEL, PERSISTENT_HEADER_BYTES) &&
           put_be(room, 0x003C0000, 4) && put_be(room, body_bytes, 8) && put_be(room, 0x1000, 2) &&
           put_be(room, 2, 1) && put_frame_end(room);
}

static int put_body(Room *room, Octets body, size_t *largest) {
    do {
        const size_t bytes = body.left < BODY_FRAME_BYTES_MAX ? body.left : BODY_FRAME_BYTES_MAX;
        if (bytes + EMPTY_FRAME_BYTES > *largest) *largest = bytes + EMPTY_FRAME_BYTES;
        if (!put_frame_header(room, FRAME_BODY, PUBLISH_CHANNEL, bytes)) return 0;
        if (!put(room, body.at, bytes) || !put_frame_end(room) || !skip(&body, bytes)) return 0;
    } while (body.left);
    return 1;
}

/* Writes the frames, which fill the room, and their places; 0 if they do not. `largest` gets the
   bytes of the largest frame. */
static int put_publishes(Room *room, const Publishes *publishes, PublishPlaces places, size_t *largest) {
    const size_t bytes = room->left;
    if (bytes > UINT32_MAX) return 0;
    *largest = PERSISTENT_FRAME_BYTES;
    for (size_t i = 0; i < publishes->count; i++) {
        if (publishes->numbers[i] >= publishes->topics_count || publishes->begins[i] > publishes->ends[i]) return 0;
        const Octets topic = publishes->topics[publishes->numbers[i]];
        const Octets body = part(publishes->data, publishes->begins[i], publishes->ends[i] - publishes->begins[i]);
        places.starts[i] = (uint32_t)(bytes - room->left);
        places.headers[i] = (uint32_t)(places.starts[i] + TOPIC_FRAME_BYTES + topic.left);
        if (body.at == NULL || topic.left > UINT8_MAX) return 0;
        if (!put_publish(room, topic, body.left) || !put_body(room, body, largest)) return 0;
        places.ends[i] = (uint32_t)(bytes - room->left);
    }
    return room->left == 0;
}

/* --- Runs of FIN (nsq_frames/finishes.py) */

enum { ID_BYTES = 16, FINISH_BYTES = 21 };

/* The id of the FIN at `position`; 0 if there is none that is plain. */
static int read_finish(Octets data, size_t position, uint64_t *id) {
    const Octets line = part(data, position, FINISH_BYTES);
    if (line.at == NULL || memcmp(line.at, "FIN ", 4) || line.at[FINISH_BYTES - 1] != '\n') return 0;
    *id = 0;
    for (size_t i = 4; i < 4 + ID_BYTES; i++) {
        const uint8_t digit = line.at[i];
        unsigned value;
        if (digit >= '0' && digit <= '9') {
            value = digit - (unsigned)'0';
        } else if (digit >= 'a' && digit <= 'f') {
            value = digit - (unsigned)'a' + 10;
        } else {
            return 0;
        }
        *id = *id << 4 | value;
    }
    return 1;
}

/* The FINs from `position` on whose ids follow each other; returns where they end, `position` if
   there are none. */
static size_t read_finishes(Octets data, size_t position, uint64_t *first, uint64_t *last) {
    if (!read_finish(data, position, first)) return position;
    uint64_t next = *last = *first;
    position += FINISH_BYTES;
    while (read_finish(data, position, &next) && *last != UINT64_MAX && next == *last + 1) {
        *last = next;
        position += FINISH_BYTES;
    }
    return position;
}

/* --- Messages (nsq_frames/deliveries.py) */

enum {
    /* Size, kind, timestamp, attempts and id. */
    MESSAGE_HEAD_BYTES = 4 + 4 + 8 + 2 + ID_BYTES,
    MESSAGE_KIND = 2
};

/* Messages of a batch, chosen and in order; their ids ascend by one. */
typedef struct {
    Octets wire;
    const uint32_t *headers, *ends;
    size_t places_count;
    const uint32_t *indexes;
    size_t count;
    uint64_t first_id, timestamp_ns;
    uint16_t attempts;
} Sent;

/* Split off the payload of the first of these frames; 0 if it is not whole. */
static int read_payload(Octets *frames, Octets *payload) {
    if (frames->left < EMPTY_FRAME_BYTES) return 0;
    *payload = part(*frames, FRAME_HEADER_BYTES, be32(frames->at + 3));
    return payload->at != NULL && skip(frames, payload->left + EMPTY_FRAME_BYTES);
}

/* The frames of a message behind its content header; none, with `at` NULL, if there is no such
   message. `bytes` is the size of the body in them. */
static Octets body_frames(const Sent *sent, size_t number, size_t *bytes) {
    const Octets none = {NULL, 0};
    const size_t index = sent->indexes[number];
    if (index >= sent->places_count || sent->headers[index] > sent->ends[index]) return none;
    Octets frames = part(sent->wire, sent->headers[index], sent->ends[index] - sent->headers[index]), payload;
    if (frames.at == NULL || !read_payload(&frames, &payload)) return none;
    *bytes = 0;
    for (Octets rest = frames; rest.left; *bytes += payload.left) {
        if (!read_payload(&rest, &payload)) return none;
    }
    return frames;
}

/* How many bytes the messages take up; SIZE_MAX if one of them is none. */
static size_t sent_bytes(const Sent *sent) {
    size_t bytes = 0;
    for (size_t i = 0; i < sent->count; i++) {
        size_t body_bytes;
        if (body_frames(sent, i, &body_bytes).at == NULL) return SIZE_MAX;
        bytes += MESSAGE_HEAD_BYTES + body_bytes;
    }
    return bytes;
}

/* Writes the messages, which fill the room; 0 if they do not. */
static int put_sent(Room *room, const Sent *sent) {
    for (size_t i = 0; i < sent->count; i++) {
        size_t body_bytes;
        Octets frames = body_frames(sent, i, &body_bytes), payload;
        if (frames.at == NULL) return 0;
        if (!put_be(room, MESSAGE_HEAD_BYTES - 4 + body_bytes, 4) || !put_be(room, MESSAGE_KIND, 4)) return 0;
        if (!put_be(room, sent->timestamp_ns, 8) || !put_be(room, sent->attempts, 2)) return 0;
        for (int shift = 60; shift >= 0; shift -= 4) {
            if (!put(room, "0123456789abcdef" + ((sent->first_id + i) >> shift & 15), 1)) return 0;
        }
        while (read_payload(&frames, &payload)) {
            if (!put(room, payload.at, payload.left)) return 0;
        }
    }
    return room->left == 0;
}

#endif
