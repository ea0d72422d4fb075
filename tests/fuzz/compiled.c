/* Fuzzes every function of amqp_frames/compiled/frames.h and nsq.h, under sanitizers: `make fuzz TARGETS=compiled`.

   compiled_program.py compiles and calls it: SEEDS RUNS SECONDS SEED, where SEEDS is a file of
   streams, each behind its length of four octets. An input is a stream, or the ends of two, with
   some octets changed. It lies in memory of exactly its size, as do all columns, so that
   AddressSanitizer finds every octet that is read or written beside them. Properties that must hold
   are checked, too; a broken one aborts. The same seed repeats a run. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "frames.h"
#include "nsq.h"

enum { STREAMS_MAX = 4096, INPUT_BYTES_MAX = 4096, PROGRESS = 1000000 };

/* Nothing here uses memory that it has freed, so little of it waits in quarantine: three times as
   fast, since the next input lies where the last one was. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "quarantine_size_mb=1:thread_local_quarantine_size_kb=64"; }

static uint64_t state;

static uint64_t random_number(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static size_t below(size_t limit) { return (size_t)(random_number() >> 16) % limit; }

static int one_in(size_t many) { return below(many) == 0; }

static void check(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "compiled: broken: %s\n", what);
    abort();
}

/* Memory of so many bytes and not one more. */
static void *exactly(size_t bytes) {
    void *made = malloc(bytes);
    check(made != NULL || !bytes, "no memory");
    return made;
}

/* --- Inputs */

static Octets streams[STREAMS_MAX];
static size_t streams_count;

static void load_streams(const char *path) {
    FILE *file = fopen(path, "rb");
    uint8_t head[4];
    check(file != NULL, "no file of streams");
    while (streams_count < STREAMS_MAX && fread(head, 1, 4, file) == 4) {
        const size_t bytes = be32(head);
        uint8_t *octets = malloc(bytes + 1);
        check(octets != NULL && fread(octets, 1, bytes, file) == bytes, "a file that ends early");
        streams[streams_count].at = octets;
        streams[streams_count++].left = bytes;
    }
    fclose(file);
    check(streams_count > 0, "no streams");
}

static void change(uint8_t *octets, size_t *bytes) {
    static const uint8_t ODD[] = "FASVtlCExDITbBsuifdL\0\1\2\3\x16\x80\xce\xfe\xff\x28\x3c\x50";
    if (!*bytes) return;
    const size_t at = below(*bytes), count = 1 + below(8);
    switch (below(8)) {
        case 0: octets[at] = (uint8_t)random_number(); break;
        case 1: octets[at] ^= (uint8_t)(1u << below(8)); break;
        case 2: octets[at] = ODD[below(sizeof ODD)]; break;
        case 3: octets[at] = 0xff; break;
        case 4: /* Some go. */
            if (count > *bytes - at) break;
            memmove(octets + at, octets + at + count, *bytes - at - count);
            *bytes -= count;
            break;
        case 5: /* Some come. */
            if (count > INPUT_BYTES_MAX - *bytes) break;
            memmove(octets + at + count, octets + at, *bytes - at);
            for (size_t i = 0; i < count; i++) octets[at + i] = (uint8_t)random_number();
            *bytes += count;
            break;
        case 6: *bytes = at; break;
        default: /* A size of four octets that is near another one. */
            if (at + 4 > *bytes) break;
            octets[at] = octets[at + 1] = octets[at + 2] = one_in(4) ? 0xff : 0;
            octets[at + 3] = (uint8_t)(octets[at + 3] + below(5) - 2);
    }
}

static size_t make_input(uint8_t *octets) {
    size_t bytes = 0;
    for (size_t streams_left = one_in(4) ? 2 : 1; streams_left; streams_left--) {
        const Octets stream = streams[below(streams_count)];
        const size_t from = one_in(4) && stream.left ? below(stream.left) : 0;
        size_t count = stream.left - from;
        if (count > INPUT_BYTES_MAX - bytes) count = INPUT_BYTES_MAX - bytes;
        memcpy(octets + bytes, stream.at + from, count);
        bytes += count;
    }
    static const size_t CHANGES[] = {0, 1, 1, 1, 2, 3, 6};
    for (size_t left = CHANGES[below(7)]; left; left--) change(octets, &bytes);
    return bytes;
}

/* --- What is called with them */

typedef struct {
    uint64_t inputs, publishes, flagged, waiting, acks, written, refused, merged, bodies, finishes, sent;
} Tally;

static Tally tally;

/* A column as it is, or with lies in it. */
static uint32_t *copy_of(const uint32_t *values, size_t count, int has_lies) {
    uint32_t *made = exactly(count * sizeof(uint32_t));
    for (size_t i = 0; i < count; i++) {
        made[i] = values[i];
        if (!has_lies || !one_in(3)) continue;
        made[i] = one_in(3) ? (uint32_t)random_number() : made[i] + (uint32_t)below(9) - 4;
    }
    return made;
}

static void fuzz_outgoing(const Run *run) {
    const size_t count = run->count;
    const int has_lies = one_in(2);
    uint32_t *headers = copy_of(run->headers, count, has_lies);
    uint32_t *ends = copy_of(run->ends, count, has_lies);
    Octets *keys = exactly(count * sizeof(Octets));
    uint64_t *acked = exactly(count * sizeof(uint64_t));
    uint8_t *begin = exactly(20);
    memset(begin, 'b', 20);
    for (size_t i = 0; i < count; i++) {
        keys[i] = run->keys.octets[run->numbers[i]];
        if (has_lies && one_in(8)) keys[i].left = 0;
        acked[i] = random_number();
    }
    const int is_return = one_in(2);
    Outgoing out = {(uint16_t)random_number(), one_in(2), {begin, 20}, !is_return, one_in(2),
                    random_number(), is_return && one_in(2) ? acked : NULL};
    const Contents contents = {run->wire, count, headers, ends, keys};
    size_t bytes = outgoing_bytes(&out, &contents);
    check(has_lies || bytes, "sound messages take up room");
    if (bytes && bytes <= 1 << 20) {
        if (one_in(8)) bytes -= one_in(2) ? 1 : below(bytes);
        uint8_t *octets = exactly(bytes);
        Room room = {octets, bytes};
        const int is_written = put_outgoing(&room, &out, &contents);
        check(!is_written || room.left == 0, "what is written fills its room");
        check(has_lies || is_written || bytes < outgoing_bytes(&out, &contents), "it is written");
        *(is_written ? &tally.written : &tally.refused) += 1;
        free(octets);
    } else {
        /* Even if nobody asks how much there will be. */
        uint8_t *octets = exactly(64);
        Room room = {octets, 64};
        put_outgoing(&room, &out, &contents);
        tally.refused++;
        free(octets);
    }
    free(headers); free(ends); free(keys); free(acked); free(begin);
}

static void fuzz_merged(const Run *run) {
    const size_t count = run->count, keys = run->keys.count;
    const int has_lies = one_in(2);
    uint32_t *columns[4] = {copy_of(run->starts, count, has_lies), copy_of(run->headers, count, has_lies),
                            copy_of(run->ends, count, has_lies), copy_of(run->numbers, count, has_lies)};
    uint32_t *made[4], *renumbered = exactly(keys * sizeof(uint32_t));
    for (size_t i = 0; i < keys; i++) renumbered[i] = (uint32_t)random_number();
    for (size_t i = 0; i < 4; i++) made[i] = exactly(2 * count * sizeof(uint32_t));
    const Part each = {run->wire, count, columns[0], columns[1], columns[2], columns[3], renumbered, keys};
    const size_t bytes = 2 * (run->ends[count - 1] - run->starts[0]) - (one_in(8) ? 1 : 0);
    uint8_t *octets = exactly(bytes);
    Room room = {octets, bytes};
    size_t position = one_in(8) ? UINT32_MAX - below(400) : 0;
    for (size_t i = 0; i < 2 && position != SIZE_MAX; i++) {
        const MergedColumns places = {made[0] + i * count, made[1] + i * count,
                                      made[2] + i * count, made[3] + i * count};
        position = put_merged(&room, position, &each, places);
        check(position == SIZE_MAX || position <= UINT32_MAX, "32 bits count what is merged");
    }
    if (position != SIZE_MAX) tally.merged++;
    for (size_t i = 0; i < 4; i++) { free(columns[i]); free(made[i]); }
    free(renumbered); free(octets);
}

static void fuzz_rows(const Run *run) {
    const size_t count = run->count, keys = run->keys.count, rows = 1 + below(4);
    const int has_lies = one_in(2);
    uint32_t *numbers = copy_of(run->numbers, count, has_lies), *row_of_key = exactly(keys * sizeof(uint32_t));
    for (size_t i = 0; i < keys; i++) row_of_key[i] = (uint32_t)below(rows + (has_lies && one_in(8)));
    const Keyed keyed = {numbers, count, row_of_key, keys};
    size_t *counts = exactly(rows * sizeof(size_t)), total = 0;
    memset(counts, 0, rows * sizeof(size_t));
    const int is_sound = count_rows(&keyed, counts, rows);
    check(has_lies || is_sound, "sound keys have rows");
    uint32_t *made[4];
    RowRoom rooms[4];
    for (size_t i = 0; i < rows; i++) {
        total += counts[i];
        /* Even if a row has less room than it needs. */
        if (has_lies && counts[i] && one_in(4)) counts[i]--;
        rooms[i].at = made[i] = exactly(counts[i] * sizeof(uint32_t));
        rooms[i].left = counts[i];
    }
    check(!is_sound || total == count, "each message has a row");
    const int are_put = put_rows(&keyed, rooms, rows);
    check(has_lies || are_put, "rows that were counted have room");
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 1; are_put && j < counts[i]; j++) check(made[i][j - 1] < made[i][j], "a row ascends");
        check(!are_put || !rooms[i].left, "rows are full");
        free(made[i]);
    }
    free(numbers); free(row_of_key); free(counts);
}

/* Messages split by their flags, divided by other numbers, and in ranges. */
static void fuzz_divided(const Run *run) {
    const size_t count = run->count;
    const int has_lies = one_in(2);
    uint32_t *indexes = exactly(count * sizeof(uint32_t)), *chosen = copy_of(run->numbers, count, has_lies);
    for (size_t i = 0; i < count; i++) indexes[i] = has_lies && one_in(3) ? (uint32_t)random_number() : (uint32_t)i;
    uint8_t *bits = exactly(count);
    memcpy(bits, run->persistent, count);
    const Octets flags = {bits, count};
    size_t found = count_flagged(indexes, count, flags);
    check(has_lies || found <= count, "each message has a flag");
    const int is_flag = found != SIZE_MAX;
    if (!is_flag) found = below(count + 1);
    for (size_t common = 0; common < 2; common++) {
        if (common) found = count_common(indexes, count, chosen, count);
        check(found <= count, "no more are found than there are");
        const size_t less = one_in(8) && found ? 1 : 0;
        uint32_t *made = exactly((found - less) * sizeof(uint32_t)), *rest = exactly((count - found) * sizeof(uint32_t));
        uint64_t *numbers = exactly((found - less) * sizeof(uint64_t));
        RowRoom one = {made, found - less}, other = {rest, count - found};
        const int is_put = common ? put_divided(indexes, count, chosen, count, &one, &other)
                                  : put_split(indexes, count, flags, &one, numbers, random_number(), &other);
        check(is_put == (!less && (common || is_flag)), "all are put where they have room");
        check(!is_put || (!one.left && !other.left), "rows are full");
        free(made); free(rest); free(numbers);
    }
    for (size_t place = 0; place < count;) {
        const size_t end = range_end(indexes, count, place);
        check(end > place && end <= count, "a range has an end");
        place = end;
    }
    free(indexes); free(chosen); free(bits);
}

/* The messages of places as a consumer of NSQ gets them. */
static void fuzz_sent(Octets wire, const uint32_t *sound_headers, const uint32_t *sound_ends, size_t count) {
    const int has_lies = one_in(2);
    uint32_t *headers = copy_of(sound_headers, count, has_lies), *ends = copy_of(sound_ends, count, has_lies);
    uint32_t *indexes = exactly(count * sizeof(uint32_t));
    for (size_t i = 0; i < count; i++) indexes[i] = (uint32_t)(has_lies && one_in(8) ? below(2 * count) : i);
    const Sent sent = {wire, headers, ends, count, indexes, count, random_number(), random_number(), 7};
    size_t bytes = sent_bytes(&sent);
    check(has_lies || bytes != SIZE_MAX, "sound messages take up room");
    /* Even if nobody asks how much there will be. */
    if (bytes > 1 << 20) bytes = 64;
    if (bytes && one_in(8)) bytes -= one_in(2) ? 1 : below(bytes);
    uint8_t *octets = exactly(bytes);
    Room room = {octets, bytes};
    const int is_written = put_sent(&room, &sent);
    check(!is_written || room.left == 0, "what is written fills its room");
    check(has_lies || is_written || bytes < sent_bytes(&sent), "it is written");
    if (is_written) tally.sent++;
    free(headers); free(ends); free(indexes); free(octets);
}

static void check_run(const Run *run, size_t position, size_t end) {
    size_t before = position, flagged = 0;
    check(end <= run->wire.left && end >= position, "a run ends within the octets");
    check(run->count <= run->room, "a run has room");
    for (size_t i = 0; i < run->count; i++) {
        check(run->starts[i] == before, "messages follow each other");
        check(run->starts[i] < run->headers[i] && run->headers[i] < run->ends[i], "places ascend");
        check(run->numbers[i] < run->keys.count, "keys are numbered");
        check(run->persistent[i] <= 1, "a bit is a bit");
        before = run->ends[i];
    }
    check(before == end, "a run ends with its last message");
    for (size_t i = 0; i < run->flagged_count; i++) {
        check(run->flagged[i] < run->count && (!i || run->flagged[i] > flagged), "flagged ascend");
        flagged = run->flagged[i];
    }
    for (size_t i = 0; i + 1 < run->keys.count; i++) {
        check(!are_equal(run->keys.octets[i], run->keys.octets[i + 1]), "keys are distinct");
    }
    check(!run->needed_bytes || run->needed_bytes > run->wire.left - end, "it waits for more");
}

/* Where a publish seems to begin, from `from` on. */
static size_t find_publish(Octets wire, size_t from) {
    for (size_t at = from; at + 11 <= wire.left; at++) {
        if (wire.at[at] == FRAME_METHOD && be32(wire.at + at + 7) == PUBLISH_IDS) return at;
    }
    return from;
}

static void fuzz_run(Octets wire, size_t position) {
    Run run;
    size_t slots = 4;
    memset(&run, 0, sizeof run);
    run.wire = wire;
    run.channel = wire.left - position < 3 || one_in(16) ? 2 : be16(wire.at + position + 1);
    run.frame_max_bytes = one_in(4) ? 60 : one_in(4) ? UINT32_MAX : 131072;
    run.body_bytes_max = one_in(4) ? 30 : one_in(8) ? UINT64_MAX : 1 << 27;
    run.room = (wire.left - position) / PUBLISH_BYTES_MIN + 1;
    while (slots < 2 * run.room) slots *= 2;
    run.keys.octets = exactly(run.room * sizeof(Octets));
    run.keys.slots = calloc(slots, sizeof(uint32_t));
    run.keys.slot_mask = slots - 1;
    run.keys.seed.k0 = random_number();
    run.keys.seed.k1 = random_number();
    uint32_t **columns[5] = {&run.starts, &run.headers, &run.ends, &run.numbers, &run.flagged};
    for (size_t i = 0; i < 5; i++) *columns[i] = exactly(run.room * sizeof(uint32_t));
    run.persistent = exactly(run.room);
    check(run.keys.slots != NULL, "no memory");
    const size_t end = scan_publishes(&run, position);
    check_run(&run, position, end);
    tally.publishes += run.count;
    tally.flagged += run.flagged_count;
    tally.waiting += run.needed_bytes != 0;
    if (run.count) {
        fuzz_outgoing(&run);
        fuzz_merged(&run);
        fuzz_rows(&run);
        fuzz_divided(&run);
        fuzz_sent(wire, run.headers, run.ends, run.count);
    }
    for (size_t i = 0; i < 5; i++) free(*columns[i]);
    free(run.keys.octets); free(run.keys.slots); free(run.persistent);
}

static void fuzz_acks(Octets data, size_t position) {
    const size_t count = count_acks(data, position);
    check(count <= (data.left - position) / ACK_FRAME_BYTES, "acks lie within the octets");
    uint64_t *tags = exactly(count * sizeof(uint64_t));
    uint8_t *multiples = exactly(count);
    check(read_acks(data, position, count, tags, multiples), "acks that were counted are there");
    free(tags); free(multiples);
    /* More than there are: refused, or as many octets are there. */
    const size_t more = count + 1 + below(3);
    tags = exactly(more * sizeof(uint64_t));
    multiples = exactly(more);
    read_acks(data, position, more, tags, multiples);
    free(tags); free(multiples);
    tally.acks += count;
}

/* Bodies as publishes, and those as messages. */
static void fuzz_bodies(const Bodies *run) {
    const size_t count = run->count;
    const int has_lies = one_in(2);
    uint32_t *columns[3] = {copy_of(run->numbers, count, has_lies), copy_of(run->begins, count, has_lies),
                            copy_of(run->ends, count, has_lies)};
    uint32_t *made[3];
    for (size_t i = 0; i < 3; i++) made[i] = exactly(count * sizeof(uint32_t));
    const Publishes publishes = {run->data, count, columns[0], columns[1], columns[2], run->topics.octets,
                                 run->topics.count};
    const PublishPlaces places = {made[0], made[1], made[2]};
    const size_t wanted = publishes_bytes(&publishes);
    check(has_lies || wanted != SIZE_MAX, "sound bodies take up room");
    size_t bytes = wanted > 1 << 20 ? 64 : wanted, largest;
    if (bytes && one_in(8)) bytes -= one_in(2) ? 1 : below(bytes);
    uint8_t *octets = exactly(bytes);
    Room room = {octets, bytes};
    const int is_written = put_publishes(&room, &publishes, places, &largest);
    check(!is_written || room.left == 0, "what is written fills its room");
    check(has_lies || is_written || bytes < wanted, "it is written");
    if (is_written) {
        const Octets wire = {octets, bytes};
        fuzz_sent(wire, places.headers, places.ends, count);
    }
    for (size_t i = 0; i < 3; i++) { free(columns[i]); free(made[i]); }
    free(octets);
}

static void fuzz_commands(Octets data, size_t position) {
    static const char *const NAMES[] = {"PUB", "MPUB", "DPUB"};
    Bodies run;
    size_t slots = 4, before = position, messages = 0;
    memset(&run, 0, sizeof run);
    run.data = data;
    size_t kind = below(3);
    for (size_t i = 0; i < 3; i++) {
        const Octets begin = part(data, position, strlen(NAMES[i]));
        if (begin.at != NULL && !memcmp(begin.at, NAMES[i], begin.left) && !one_in(16)) kind = i;
    }
    run.command.at = (const uint8_t *)NAMES[kind];
    run.command.left = strlen(NAMES[kind]);
    run.has_many = kind == 1;
    run.is_delayed = kind == 2;
    run.message_bytes_max = one_in(4) ? 30 : one_in(8) ? UINT64_MAX : 1 << 20;
    run.body_bytes_max = one_in(4) ? below(80) : one_in(8) ? UINT64_MAX : 5 << 20;
    run.delay_ms_max = one_in(4) ? 1000 : 3600000;
    const size_t left = data.left - position;
    /* Less than the octets could hold, now and then: a run ends there, too. */
    run.room = one_in(8) ? below(4) : left / (run.has_many ? MESSAGE_BYTES_MIN : PUB_BYTES_MIN) + 1;
    run.commands_room = one_in(8) ? below(4) : left / (run.has_many ? MPUB_BYTES_MIN : PUB_BYTES_MIN) + 1;
    while (slots < 2 * run.commands_room) slots *= 2;
    run.topics.octets = exactly(run.commands_room * sizeof(Octets));
    run.topics.slots = calloc(slots, sizeof(uint32_t));
    run.topics.slot_mask = slots - 1;
    run.topics.seed.k0 = random_number();
    run.topics.seed.k1 = random_number();
    run.counts = exactly(run.commands_room * sizeof(uint32_t));
    uint32_t **columns[4] = {&run.begins, &run.ends, &run.numbers, &run.delays_ms};
    for (size_t i = 0; i < 4; i++) *columns[i] = exactly(run.room * sizeof(uint32_t));
    check(run.topics.slots != NULL, "no memory");
    const size_t end = scan_bodies(&run, position);
    check(end <= data.left && end >= position, "a run ends within the octets");
    check(run.count <= run.room && run.commands <= run.commands_room, "a run has room");
    for (size_t i = 0; i < run.commands; i++) messages += run.counts[i];
    check(messages == run.count, "each message is of a command");
    for (size_t i = 0; i < run.count; i++) {
        check(run.begins[i] >= before + 4 && run.begins[i] < run.ends[i], "places ascend");
        check(run.numbers[i] < run.topics.count, "topics are numbered");
        check(!run.is_delayed || run.delays_ms[i] <= run.delay_ms_max, "a delay has its limit");
        before = run.ends[i];
    }
    check(before == end, "a run ends with its last message");
    for (size_t i = 0; i < run.topics.count; i++) check(is_valid_name(run.topics.octets[i]), "names are valid");
    tally.bodies += run.count;
    if (run.count) fuzz_bodies(&run);
    for (size_t i = 0; i < 4; i++) free(*columns[i]);
    free(run.topics.octets); free(run.topics.slots); free(run.counts);
}

static void fuzz_finishes(Octets data, size_t position) {
    uint64_t first, last;
    for (size_t end; (end = read_finishes(data, position, &first, &last)) != position; position = end) {
        check(end <= data.left && last - first + 1 == (end - position) / FINISH_BYTES, "a range is of its FINs");
        tally.finishes += last - first + 1;
    }
}

/* Wherever a command of NSQ seems to begin. */
static void fuzz_nsq(Octets data) {
    for (size_t at = 0; at + 3 <= data.left; at++) {
        if (!memcmp(data.at + at, "FIN", 3)) fuzz_finishes(data, at);
        const int is_publish = !memcmp(data.at + at, "PUB", 3);
        const size_t ahead = is_publish && at && (data.at[at - 1] == 'M' || data.at[at - 1] == 'D') ? 1 : 0;
        if (is_publish && (!at || one_in(3))) fuzz_commands(data, at - ahead);
    }
    fuzz_commands(data, below(data.left + 1));
}

static void fuzz_answers(void) {
    const size_t bytes = below(70);
    uint8_t *octets = exactly(bytes);
    Room room = {octets, bytes};
    size_t count = 0;
    while (put_answer(&room, (uint16_t)random_number(), 80, random_number(), (unsigned)below(4))) count++;
    check(count == bytes / ACK_FRAME_BYTES, "answers fill their room");
    free(octets);
}

static void fuzz_properties(Octets wire) {
    const size_t from = below(wire.left + 1);
    const Octets properties = {wire.at + from, wire.left - from};
    const int mode = delivery_mode_of(properties);
    check(mode >= -1 && mode <= 255, "a delivery mode is an octet");
    if (mode >= 0) must_look(properties, mode);
    fields_are_sound(properties, one_in(2), 1);
}

static void fuzz_once(uint8_t *octets) {
    const size_t bytes = make_input(octets);
    uint8_t *exact = exactly(bytes);
    const Octets wire = {exact, bytes};
    memcpy(exact, octets, bytes);
    fuzz_run(wire, one_in(8) ? below(bytes + 1) : find_publish(wire, one_in(2) ? 0 : below(bytes + 1)));
    fuzz_properties(wire);
    for (size_t at = 0; at + 11 < bytes; at++) {
        /* Where an ack seems to begin. */
        if (exact[at] == FRAME_METHOD && be32(exact + at + 7) == ACK_IDS) fuzz_acks(wire, at);
    }
    fuzz_acks(wire, below(bytes + 1));
    if (one_in(16)) fuzz_answers();
    fuzz_nsq(wire);
    free(exact);
    tally.inputs++;
}

/* The inputs of a run come from its seed alone, so a broken one is found again by it. */
int main(int count, char **arguments) {
    static uint8_t octets[INPUT_BYTES_MAX];
    if (count != 5) return 2;
    load_streams(arguments[1]);
    const uint64_t runs = strtoull(arguments[2], NULL, 10), seconds = strtoull(arguments[3], NULL, 10);
    state = strtoull(arguments[4], NULL, 10) * 0x9E3779B97F4A7C15u | 1;
    const time_t began = time(NULL);
    while (tally.inputs < runs) {
        fuzz_once(octets);
        if (tally.inputs % PROGRESS == 0) {
            printf("fuzz compiled: %llu inputs so far\n", (unsigned long long)tally.inputs);
            fflush(stdout);
        }
        if (seconds && tally.inputs % 1024 == 0 && (uint64_t)(time(NULL) - began) >= seconds) break;
    }
    const double elapsed = (double)(time(NULL) - began);
    printf("fuzz compiled (sanitizers): %llu inputs in %.0f s, %.0f a second, seed %s; %llu publishes, "
           "%llu flagged, %llu waiting, %llu acks, %llu written, %llu refused, %llu merged, %llu bodies, "
           "%llu finishes, %llu sent\n",
           (unsigned long long)tally.inputs, elapsed, (double)tally.inputs / (elapsed > 1 ? elapsed : 1),
           arguments[4], (unsigned long long)tally.publishes, (unsigned long long)tally.flagged,
           (unsigned long long)tally.waiting, (unsigned long long)tally.acks,
           (unsigned long long)tally.written, (unsigned long long)tally.refused,
           (unsigned long long)tally.merged, (unsigned long long)tally.bodies,
           (unsigned long long)tally.finishes, (unsigned long long)tally.sent);
    return 0;
}
