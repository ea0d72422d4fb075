/* The Python module over frames.h and nsq.h: takes bytes and columns, returns bytes and columns.

   _codec.pyi says what each function promises, and which Python is its specification. The stable
   ABI of Python 3.11 is all that is used, so one file serves it and every later version. */
#define PY_SSIZE_T_CLEAN
#ifndef Py_GIL_DISABLED
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>

#include <limits.h>

#include "frames.h"
#include "nsq.h"

/* As in __init__.py: it grows with every change of a function's arguments or results. */
enum { REVISION = 5 };

/* A lone publish or delivery needs no more working memory than this, and so no allocation. */
enum { SMALL_BYTES = 4096 };

/* What merge() asks of a batch. */
enum { STARTS, HEADERS, ENDS, KEYS, WIRE, DISTINCT, PERSISTENT, BYTES, CHANNEL, LARGEST, ASKED };
static const char *const ASKED_NAMES[ASKED] = {
    "starts", "headers", "ends", "keys", "wire", "distinct", "persistent", "wire_bytes",
    "channel_number", "frame_bytes_max"};

typedef struct {
    Seed seed;
    /* Arrays of one 0: "I" and "Q". Repeating one is the quickest way to an array of a size. */
    PyObject *short_column, *long_column;
    PyObject *names[ASKED];
} State;

static State *state_of(PyObject *module) { return PyModule_GetState(module); }

/* --- From and to Python */

static int read_octets(PyObject *object, Octets *octets) {
    char *at;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(object, &at, &size) < 0) return 0;
    if ((uint64_t)size > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "more octets than 32 bits can count");
        return 0;
    }
    octets->at = (const uint8_t *)at;
    octets->left = (size_t)size;
    return 1;
}

static int read_position(PyObject *object, Octets octets, size_t *position) {
    const Py_ssize_t value = PyLong_AsSsize_t(object);
    if (value == -1 && PyErr_Occurred()) return 0;
    if (value < 0 || (size_t)value > octets.left) {
        PyErr_SetString(PyExc_ValueError, "a position outside the octets");
        return 0;
    }
    *position = (size_t)value;
    return 1;
}

static int read_number(PyObject *object, uint64_t most, uint64_t *number) {
    *number = PyLong_AsUnsignedLongLong(object);
    if (*number == UINT64_MAX && PyErr_Occurred()) return 0;
    if (*number > most) {
        PyErr_SetString(PyExc_OverflowError, "a number larger than its place");
        return 0;
    }
    return 1;
}

static int read_channel(PyObject *object, uint16_t *channel) {
    uint64_t number;
    if (!read_number(object, UINT16_MAX, &number)) return 0;
    *channel = (uint16_t)number;
    return 1;
}

static int has_arguments(Py_ssize_t count, Py_ssize_t expected) {
    if (count != expected) PyErr_Format(PyExc_TypeError, "%zd arguments, not %zd", expected, count);
    return count == expected;
}

/* A column of 32-bit numbers: array("I"), or whatever else has such a buffer. */
typedef struct {
    Py_buffer view;
    const uint32_t *values;
    size_t count;
} Column;

static int open_column(PyObject *object, Column *column) {
    if (PyObject_GetBuffer(object, &column->view, PyBUF_SIMPLE) < 0) {
        column->view.obj = NULL;
        return 0;
    }
    column->values = column->view.buf;
    column->count = (size_t)column->view.len / sizeof(uint32_t);
    if ((size_t)column->view.len % sizeof(uint32_t)) {
        PyErr_SetString(PyExc_ValueError, "no column of 32-bit numbers");
        return 0;
    }
    return 1;
}

static void close_column(Column *column) {
    if (column->view.obj != NULL) PyBuffer_Release(&column->view);
}

/* A new array of so many items, a repeated `zero`, and a view of its memory, which the caller
   closes before anybody else sees the array. */
static PyObject *new_column(PyObject *zero, size_t count, Py_buffer *view) {
    PyObject *made = PySequence_Repeat(zero, (Py_ssize_t)count);
    if (made != NULL && PyObject_GetBuffer(made, view, PyBUF_WRITABLE) < 0) Py_CLEAR(made);
    return made;
}

static PyObject *column_of(PyObject *zero, const void *values, size_t count) {
    Py_buffer view;
    PyObject *made = new_column(zero, count, &view);
    if (made == NULL) return NULL;
    if (count) memcpy(view.buf, values, (size_t)view.len);
    PyBuffer_Release(&view);
    return made;
}

/* A list of bytes. */
static PyObject *octets_list_of(const Octets *octets, size_t count) {
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *each = PyBytes_FromStringAndSize((const char *)octets[i].at, (Py_ssize_t)octets[i].left);
        if (each == NULL || PyList_SetItem(list, (Py_ssize_t)i, each) < 0) Py_CLEAR(list);
    }
    return list;
}

/* Working memory: a piece of the stack if it is enough. */
typedef struct {
    uint64_t small[SMALL_BYTES / 8];
    void *large;
} Memory;

static void *reserve(Memory *memory, size_t bytes) {
    memory->large = NULL;
    if (bytes <= SMALL_BYTES) return memory->small;
    memory->large = PyMem_Malloc(bytes);
    if (memory->large == NULL) PyErr_NoMemory();
    return memory->large;
}

static void release(Memory *memory) {
    if (memory->large != NULL) PyMem_Free(memory->large);
}

/* --- publishes(wire, position, channel, frame_max, body_max, numbers, distinct) */

/* The run's keys by their numbers in the batch: new ones are added to `numbers` and `distinct`.
   `numbers_of` has room for them; are any numbered otherwise than in the run? -1: an exception. */
static int number_keys(const Run *run, PyObject *numbers, PyObject *distinct, uint32_t *numbers_of) {
    int differ = 0;
    for (uint32_t i = 0; i < run->keys.count; i++) {
        const Octets key = run->keys.octets[i];
        PyObject *octets = PyBytes_FromStringAndSize((const char *)key.at, (Py_ssize_t)key.left);
        if (octets == NULL) return -1;
        PyObject *known = PyDict_GetItemWithError(numbers, octets);
        uint64_t number = 0;
        int is_sound = 0;
        if (known != NULL) {
            is_sound = read_number(known, UINT32_MAX, &number);
        } else if (!PyErr_Occurred()) {
            const Py_ssize_t count = PyDict_Size(numbers);
            PyObject *added = count < 0 ? NULL : PyLong_FromSsize_t(count);
            is_sound = added != NULL && PyDict_SetItem(numbers, octets, added) == 0 &&
                       PyList_Append(distinct, octets) == 0;
            Py_XDECREF(added);
            number = (uint64_t)count;
        }
        Py_DECREF(octets);
        if (!is_sound) return -1;
        numbers_of[i] = (uint32_t)number;
        differ |= number != i;
    }
    return differ;
}

static PyObject *flagged_of(const Run *run) {
    if (!run->flagged_count) Py_RETURN_NONE;
    PyObject *list = PyList_New((Py_ssize_t)run->flagged_count);
    for (size_t i = 0; list != NULL && i < run->flagged_count; i++) {
        PyObject *index = PyLong_FromSize_t(run->flagged[i]);
        if (index == NULL || PyList_SetItem(list, (Py_ssize_t)i, index) < 0) Py_CLEAR(list);
    }
    return list;
}

/* Five columns in a tuple. */
static PyObject *columns_of(State *state, const Run *run) {
    const uint32_t *const columns[4] = {run->starts, run->headers, run->ends, run->numbers};
    PyObject *made = PyTuple_New(5);
    for (size_t i = 0; made != NULL && i < 5; i++) {
        PyObject *column =
            i < 4 ? column_of(state->short_column, columns[i], run->count)
                  : PyByteArray_FromStringAndSize((const char *)run->persistent, (Py_ssize_t)run->count);
        if (column == NULL || PyTuple_SetItem(made, (Py_ssize_t)i, column) < 0) Py_CLEAR(made);
    }
    return made;
}

/* The same; the run's keys have their numbers in the batch. */
static PyObject *numbered_columns_of(State *state, Run *run, PyObject *numbers, PyObject *distinct) {
    /* The scan has done with its slots, and there are more of them than keys. */
    uint32_t *numbers_of = run->keys.slots;
    const int differ = number_keys(run, numbers, distinct, numbers_of);
    if (differ < 0) return NULL;
    if (differ) {
        for (size_t i = 0; i < run->count; i++) run->numbers[i] = numbers_of[run->numbers[i]];
    }
    return columns_of(state, run);
}

/* A tuple of the items, which are the caller's no more; NULL if one of them is. */
static PyObject *tuple_of(PyObject **items, size_t count) {
    PyObject *made = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; i < count; i++) {
        if (made == NULL || items[i] == NULL) {
            Py_XDECREF(items[i]);
            Py_CLEAR(made);
        } else if (PyTuple_SetItem(made, (Py_ssize_t)i, items[i]) < 0) {
            Py_CLEAR(made);
        }
    }
    return made;
}

/* End, bytes that are needed, flagged, the largest frame's bytes, columns or None. */
static PyObject *run_found(State *state, Run *run, size_t end, PyObject *numbers, PyObject *distinct) {
    PyObject *items[5] = {
        PyLong_FromSize_t(end),
        PyLong_FromUnsignedLongLong(run->needed_bytes),
        flagged_of(run),
        PyLong_FromUnsignedLong(run->largest),
        NULL,
    };
    if (run->count) {
        items[4] = numbered_columns_of(state, run, numbers, distinct);
    } else {
        items[4] = Py_NewRef(Py_None);
    }
    return tuple_of(items, 5);
}

/* Lay out the columns and keys of a run over `wire` from `position` on, and scan it; `end` is where
   it ends. 0: no memory, else `memory` is to be released. */
static int scan(State *state, Run *run, Memory *memory, size_t position, size_t *end) {
    size_t slots = 4;
    /* One more, so that a look is had at the publish that is not whole. */
    run->room = (run->wire.left - position) / PUBLISH_BYTES_MIN + 1;
    while (slots < 2 * run->room) slots *= 2;
    const size_t slots_bytes = slots * sizeof(uint32_t);
    const size_t bytes = run->room * (sizeof(Octets) + 5 * sizeof(uint32_t) + 1) + slots_bytes;
    /* Columns in the order of their items' sizes, so that each is aligned. */
    Octets *keys = reserve(memory, bytes);
    if (keys == NULL) return 0;
    run->keys.octets = keys;
    run->keys.slots = (uint32_t *)(keys + run->room);
    run->keys.slot_mask = slots - 1;
    run->keys.seed = state->seed;
    run->starts = run->keys.slots + slots;
    run->headers = run->starts + run->room;
    run->ends = run->headers + run->room;
    run->numbers = run->ends + run->room;
    run->flagged = run->numbers + run->room;
    run->persistent = (uint8_t *)(run->flagged + run->room);
    memset(run->keys.slots, 0, slots_bytes);
    *end = scan_publishes(run, position);
    return 1;
}

static PyObject *publishes(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    State *state = state_of(module);
    Run run;
    memset(&run, 0, sizeof run);
    size_t position, end;
    uint64_t frame_max;
    if (!has_arguments(count, 7)) return NULL;
    if (!read_octets(args[0], &run.wire) || !read_position(args[1], run.wire, &position)) return NULL;
    if (!read_channel(args[2], &run.channel)) return NULL;
    if (!read_number(args[3], UINT32_MAX, &frame_max)) return NULL;
    if (!read_number(args[4], UINT64_MAX, &run.body_bytes_max)) return NULL;
    if (!PyDict_Check(args[5]) || !PyList_Check(args[6])) {
        PyErr_SetString(PyExc_TypeError, "numbers must be a dict and distinct a list");
        return NULL;
    }
    run.frame_max_bytes = (uint32_t)frame_max;
    Memory memory;
    if (!scan(state, &run, &memory, position, &end)) return NULL;
    PyObject *found = run_found(state, &run, end, args[5], args[6]);
    release(&memory);
    return found;
}

/* --- publishes_alone(data, frame_max, body_max) */

static PyObject *publishes_alone(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    State *state = state_of(module);
    Run run;
    memset(&run, 0, sizeof run);
    size_t end;
    uint64_t frame_max;
    if (!has_arguments(count, 3)) return NULL;
    if (!read_octets(args[0], &run.wire)) return NULL;
    if (!read_number(args[1], UINT32_MAX, &frame_max)) return NULL;
    if (!read_number(args[2], UINT64_MAX, &run.body_bytes_max)) return NULL;
    run.frame_max_bytes = (uint32_t)frame_max;
    if (run.wire.left < PUBLISH_BYTES_MIN) Py_RETURN_NONE;
    run.channel = (uint16_t)(run.wire.at[1] << 8 | run.wire.at[2]);
    if (!run.channel) Py_RETURN_NONE;
    Memory memory;
    if (!scan(state, &run, &memory, 0, &end)) return NULL;
    PyObject *found;
    if (end == run.wire.left) {
        PyObject *items[5] = {PyLong_FromLong(run.channel), octets_list_of(run.keys.octets, run.keys.count), flagged_of(&run),
                              PyLong_FromUnsignedLong(run.largest), columns_of(state, &run)};
        found = tuple_of(items, 5);
    } else {
        found = Py_NewRef(Py_None);
    }
    release(&memory);
    return found;
}

/* --- acks(data, position) */

static PyObject *acks(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Octets data;
    size_t position;
    if (!has_arguments(count, 2)) return NULL;
    if (!read_octets(args[0], &data) || !read_position(args[1], data, &position)) return NULL;
    const size_t found = count_acks(data, position);
    Py_buffer view;
    PyObject *tags = new_column(state_of(module)->long_column, found, &view), *result = NULL;
    if (tags == NULL) return NULL;
    PyObject *multiples = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)found);
    int is_read = 0;
    if (multiples != NULL) {
        uint8_t *bits = (uint8_t *)PyByteArray_AsString(multiples);
        is_read = read_acks(data, position, found, view.buf, bits);
        if (!is_read) PyErr_SetString(PyExc_ValueError, "no acks");
    }
    PyBuffer_Release(&view);
    if (is_read) {
        const size_t end = position + found * ACK_FRAME_BYTES;
        result = Py_BuildValue("nOO", (Py_ssize_t)end, tags, multiples);
    }
    Py_DECREF(tags);
    Py_XDECREF(multiples);
    return result;
}

/* --- deliveries(...) and returns(...) */

/* The columns of a batch and the messages chosen among them: `values` holds their numbers. */
typedef struct {
    Octets wire;
    Column headers, ends, keys;
    PyObject *distinct;
} Messages;

static void close_messages(Messages *messages) {
    close_column(&messages->headers);
    close_column(&messages->ends);
    close_column(&messages->keys);
}

/* args: wire, headers, ends, keys, distinct */
static int open_messages(PyObject *const *args, Messages *messages) {
    messages->headers.view.obj = messages->ends.view.obj = messages->keys.view.obj = NULL;
    if (!read_octets(args[0], &messages->wire)) return 0;
    if (!PyList_Check(args[4])) {
        PyErr_SetString(PyExc_TypeError, "distinct must be a list");
        return 0;
    }
    messages->distinct = args[4];
    return open_column(args[1], &messages->headers) && open_column(args[2], &messages->ends) &&
           open_column(args[3], &messages->keys);
}

/* The numbers that a sequence holds. */
static int read_indexes(PyObject *indexes, uint32_t *found, size_t count) {
    if (PyObject_CheckBuffer(indexes)) {
        Column column;
        int is_read = open_column(indexes, &column) && column.count == count;
        if (is_read) memcpy(found, column.values, count * sizeof(uint32_t));
        else if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no column of 32-bit numbers");
        close_column(&column);
        return is_read;
    }
    for (size_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(indexes, (Py_ssize_t)i);
        uint64_t index;
        const int is_read = item != NULL && read_number(item, UINT32_MAX, &index);
        Py_XDECREF(item);
        if (!is_read) return 0;
        found[i] = (uint32_t)index;
        /* A range with a step of 1 has its last where the first says. */
        if (i == 0 && count > 2 && Py_IS_TYPE(indexes, &PyRange_Type)) {
            uint64_t last;
            item = PySequence_GetItem(indexes, (Py_ssize_t)count - 1);
            const int is_last = item != NULL && read_number(item, UINT32_MAX, &last);
            Py_XDECREF(item);
            if (!is_last) return 0;
            if (last == index + count - 1) {
                for (i = 1; i < count; i++) found[i] = (uint32_t)(index + i);
            }
        }
    }
    return 1;
}

/* The frames of these messages. `acked_from`: the ack behind message i has the tag acked_from + i;
   0: no acks. */
static PyObject *outgoing(const Messages *messages, PyObject *indexes, Outgoing *out, uint64_t acked_from) {
    const Py_ssize_t size = PySequence_Size(indexes);
    if (size < 0) return NULL;
    if (!size) return PyBytes_FromStringAndSize(NULL, 0);
    const size_t count = (size_t)size;
    if (count > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "more messages than 32 bits can count");
        return NULL;
    }
    PyObject *frames = NULL;
    Memory memory;
    Octets *keys = reserve(&memory, count * (sizeof(Octets) + sizeof(uint64_t) + 3 * sizeof(uint32_t)));
    if (keys == NULL) return NULL;
    uint64_t *acked = (uint64_t *)(keys + count);
    uint32_t *chosen = (uint32_t *)(acked + count), *headers = chosen + count, *ends = headers + count;
    if (!read_indexes(indexes, chosen, count)) goto done;
    uint32_t number = 0;
    Octets key = {NULL, 0};
    for (size_t i = 0; i < count; i++) {
        const size_t index = chosen[i];
        if (index >= messages->headers.count || index >= messages->ends.count || index >= messages->keys.count) {
            PyErr_SetString(PyExc_IndexError, "no message of the batch");
            goto done;
        }
        if (key.at == NULL || messages->keys.values[index] != number) {
            number = messages->keys.values[index];
            PyObject *octets = PyList_GetItem(messages->distinct, (Py_ssize_t)number);
            if (octets == NULL || !read_octets(octets, &key)) goto done;
        }
        headers[i] = messages->headers.values[index];
        ends[i] = messages->ends.values[index];
        keys[i] = key;
        acked[i] = acked_from + index;
    }
    out->acked = acked_from ? acked : NULL;
    const Contents contents = {messages->wire, count, headers, ends, keys};
    const size_t bytes = outgoing_bytes(out, &contents);
    if (!bytes || bytes > (size_t)PY_SSIZE_T_MAX) {
        PyErr_SetString(PyExc_ValueError, "columns that lie outside the wire");
        goto done;
    }
    frames = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    if (frames == NULL) goto done;
    Room room = {(uint8_t *)PyBytes_AsString(frames), bytes};
    if (!put_outgoing(&room, out, &contents)) {
        Py_CLEAR(frames);
        PyErr_SetString(PyExc_ValueError, "contents that are no row of frames");
    }
done:
    release(&memory);
    return frames;
}

/* args: wire, headers, ends, keys, distinct, indexes, channel, other channel, begin, tag, redelivered */
static PyObject *deliveries(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    Messages messages;
    Outgoing out = {0};
    if (!has_arguments(count, 11)) return NULL;
    if (!read_channel(args[6], &out.channel) || !read_octets(args[8], &out.begin)) return NULL;
    out.has_other_channel = PyObject_IsTrue(args[7]);
    out.is_redelivered = PyObject_IsTrue(args[10]);
    if (out.has_other_channel < 0 || out.is_redelivered < 0) return NULL;
    if (!read_number(args[9], UINT64_MAX, &out.first_tag)) return NULL;
    out.has_tag = 1;
    PyObject *frames = NULL;
    if (open_messages(args, &messages)) frames = outgoing(&messages, args[5], &out, 0);
    close_messages(&messages);
    return frames;
}

/* args: wire, headers, ends, keys, distinct, indexes, channel, other channel, begin, first number */
static PyObject *returns(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    Messages messages;
    Outgoing out = {0};
    uint64_t first;
    if (!has_arguments(count, 10)) return NULL;
    if (!read_channel(args[6], &out.channel) || !read_octets(args[8], &out.begin)) return NULL;
    out.has_other_channel = PyObject_IsTrue(args[7]);
    if (out.has_other_channel < 0 || !read_number(args[9], UINT64_MAX, &first)) return NULL;
    PyObject *frames = NULL;
    if (open_messages(args, &messages)) frames = outgoing(&messages, args[5], &out, first);
    close_messages(&messages);
    return frames;
}

/* --- answers(channel, method_id, bits, cumulative, singles) */

static PyObject *answers(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    uint16_t channel, method;
    uint64_t bits, cumulative;
    if (!has_arguments(count, 5)) return NULL;
    if (!read_channel(args[0], &channel) || !read_channel(args[1], &method)) return NULL;
    if (!read_number(args[2], UINT8_MAX, &bits) || !read_number(args[3], UINT64_MAX, &cumulative)) return NULL;
    PyObject *ranges = PySequence_Tuple(args[4]), *frames = NULL;
    if (ranges == NULL) return NULL;
    const size_t ranges_count = (size_t)PyTuple_Size(ranges);
    Memory memory;
    uint64_t *tags = reserve(&memory, 2 * sizeof(uint64_t) * ranges_count);
    if (tags == NULL) goto done;
    uint64_t total = cumulative ? 1 : 0;
    for (size_t i = 0; i < ranges_count; i++) {
        PyObject *range = PyTuple_GetItem(ranges, (Py_ssize_t)i), *first, *last;
        if (!PyTuple_Check(range) || PyTuple_Size(range) != 2) {
            PyErr_SetString(PyExc_TypeError, "a range is a pair of tags");
            goto done;
        }
        first = PyTuple_GetItem(range, 0);
        last = PyTuple_GetItem(range, 1);
        if (!read_number(first, UINT64_MAX - 1, tags + 2 * i)) goto done;
        if (!read_number(last, UINT64_MAX - 1, tags + 2 * i + 1)) goto done;
        if (tags[2 * i] > tags[2 * i + 1]) tags[2 * i + 1] = tags[2 * i] - 1;
        if (tags[2 * i + 1] + 1 - tags[2 * i] > UINT32_MAX || total > UINT32_MAX) {
            PyErr_SetString(PyExc_OverflowError, "more answers than 32 bits can count");
            goto done;
        }
        total += tags[2 * i + 1] + 1 - tags[2 * i];
    }
    const size_t bytes = (size_t)total * ACK_FRAME_BYTES;
    frames = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    if (frames == NULL) goto done;
    Room room = {(uint8_t *)PyBytes_AsString(frames), bytes};
    int is_written = !cumulative || put_answer(&room, channel, method, cumulative, (unsigned)bits | 1);
    for (size_t i = 0; is_written && i < ranges_count; i++) {
        for (uint64_t tag = tags[2 * i]; is_written && tag < tags[2 * i + 1] + 1; tag++) {
            is_written = put_answer(&room, channel, method, tag, (unsigned)bits);
        }
    }
    if (!is_written) {
        Py_CLEAR(frames);
        PyErr_SetString(PyExc_ValueError, "answers that do not fit their room");
    }
done:
    if (tags != NULL) release(&memory);
    Py_DECREF(ranges);
    return frames;
}

/* --- merge(batches) */

enum { COLUMNS = KEYS + 1 };

/* What has been merged so far, and room for the rest. */
typedef struct {
    size_t count, position;
    Room room;
    Py_buffer columns[COLUMNS];
    uint8_t *persistent;
    PyObject *numbers, *distinct;
    long channel;
    uint64_t largest;
} Merged;

/* Sums up messages and bytes of the batches. */
static int measure_batches(State *state, PyObject *batches, size_t *messages, size_t *bytes) {
    const Py_ssize_t count = PyTuple_Size(batches);
    *messages = *bytes = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *batch = PyTuple_GetItem(batches, i);
        PyObject *starts = PyObject_GetAttr(batch, state->names[STARTS]);
        PyObject *wire_bytes = PyObject_GetAttr(batch, state->names[BYTES]);
        const Py_ssize_t size = starts == NULL ? -1 : PyObject_Size(starts);
        uint64_t octets = 0;
        const int is_read = size >= 0 && wire_bytes != NULL && read_number(wire_bytes, UINT32_MAX, &octets);
        Py_XDECREF(starts);
        Py_XDECREF(wire_bytes);
        if (!is_read) return 0;
        *messages += (size_t)size;
        *bytes += octets;
    }
    if (*messages > UINT32_MAX || *bytes > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "more octets than 32 bits can count");
        return 0;
    }
    return 1;
}

/* The part's keys by their numbers in the merged batch; new ones are appended to `distinct`. */
static int renumber_keys(Merged *merged, PyObject *distinct, uint32_t *renumbered, size_t count) {
    for (size_t i = 0; i < count; i++) {
        PyObject *key = PyList_GetItem(distinct, (Py_ssize_t)i);
        PyObject *known = key == NULL ? NULL : PyDict_GetItemWithError(merged->numbers, key);
        uint64_t number;
        if (known != NULL) {
            if (!read_number(known, UINT32_MAX, &number)) return 0;
        } else {
            if (PyErr_Occurred()) return 0;
            number = (uint64_t)PyDict_Size(merged->numbers);
            PyObject *added = PyLong_FromUnsignedLongLong(number);
            const int is_added = added != NULL && PyDict_SetItem(merged->numbers, key, added) == 0 &&
                                 PyList_Append(merged->distinct, key) == 0;
            Py_XDECREF(added);
            if (!is_added) return 0;
        }
        renumbered[i] = (uint32_t)number;
    }
    return 1;
}

static int append_part(Merged *merged, const Column *columns, const Octets *wire, PyObject *distinct, PyObject *persistent) {
    const size_t count = columns[STARTS].count, offset = merged->count;
    for (size_t i = 0; i < COLUMNS; i++) {
        if (columns[i].count != count || (offset + count) * sizeof(uint32_t) > (size_t)merged->columns[i].len) {
            PyErr_SetString(PyExc_ValueError, "columns of different sizes");
            return 0;
        }
    }
    if (!PyList_Check(distinct) || !PyByteArray_Check(persistent) || (size_t)PyByteArray_Size(persistent) != count) {
        PyErr_SetString(PyExc_TypeError, "no columns of a batch");
        return 0;
    }
    const size_t keys = (size_t)PyList_Size(distinct);
    Memory memory;
    uint32_t *renumbered = reserve(&memory, keys * sizeof(uint32_t));
    if (renumbered == NULL) return 0;
    size_t end = SIZE_MAX;
    if (renumber_keys(merged, distinct, renumbered, keys)) {
        const Part each = {*wire, count, columns[STARTS].values, columns[HEADERS].values,
                           columns[ENDS].values, columns[KEYS].values, renumbered, keys};
        uint32_t *made[COLUMNS];
        for (size_t i = 0; i < COLUMNS; i++) made[i] = (uint32_t *)merged->columns[i].buf + offset;
        const MergedColumns places = {made[STARTS], made[HEADERS], made[ENDS], made[KEYS]};
        end = put_merged(&merged->room, merged->position, &each, places);
        if (end == SIZE_MAX) PyErr_SetString(PyExc_ValueError, "columns that lie outside the wire");
    }
    release(&memory);
    if (end == SIZE_MAX) return 0;
    memcpy(merged->persistent + offset, PyByteArray_AsString(persistent), count);
    merged->position = end;
    merged->count += count;
    return 1;
}

static int append_batch(State *state, Merged *merged, PyObject *batch) {
    PyObject *values[ASKED] = {NULL};
    Column columns[COLUMNS];
    Octets wire;
    int is_appended = 1;
    for (size_t i = 0; i < COLUMNS; i++) columns[i].view.obj = NULL;
    for (size_t i = 0; is_appended && i < ASKED; i++) {
        values[i] = PyObject_GetAttr(batch, state->names[i]);
        is_appended = values[i] != NULL && (i >= COLUMNS || open_column(values[i], columns + i));
    }
    if (is_appended) {
        uint64_t largest;
        const long channel = PyLong_AsLong(values[CHANNEL]);
        is_appended = !PyErr_Occurred() && read_number(values[LARGEST], UINT32_MAX, &largest) &&
                      read_octets(values[WIRE], &wire) &&
                      append_part(merged, columns, &wire, values[DISTINCT], values[PERSISTENT]);
        if (is_appended && largest > merged->largest) merged->largest = largest;
        if (is_appended && merged->channel != channel) merged->channel = merged->channel == LONG_MIN ? channel : -1;
    }
    for (size_t i = 0; i < COLUMNS; i++) close_column(columns + i);
    for (size_t i = 0; i < ASKED; i++) Py_XDECREF(values[i]);
    return is_appended;
}

static PyObject *merge(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    State *state = state_of(module);
    size_t messages, bytes, opened = 0;
    if (!has_arguments(count, 1)) return NULL;
    PyObject *batches = PySequence_Tuple(args[0]), *wire = NULL, *persistent = NULL, *result = NULL;
    PyObject *columns[COLUMNS] = {NULL};
    if (batches == NULL) return NULL;
    Merged merged = {0, 0, {NULL, 0}, {{0}}, NULL, PyDict_New(), PyList_New(0), LONG_MIN, 0};
    int is_merged = merged.numbers != NULL && merged.distinct != NULL;
    if (!is_merged || !measure_batches(state, batches, &messages, &bytes)) goto done;
    wire = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    persistent = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)messages);
    is_merged = wire != NULL && persistent != NULL;
    for (; is_merged && opened < COLUMNS; opened += (size_t)is_merged) {
        columns[opened] = new_column(state->short_column, messages, merged.columns + opened);
        is_merged = columns[opened] != NULL;
    }
    if (is_merged) {
        merged.room.at = (uint8_t *)PyBytes_AsString(wire);
        merged.room.left = bytes;
        merged.persistent = (uint8_t *)PyByteArray_AsString(persistent);
    }
    const Py_ssize_t parts = PyTuple_Size(batches);
    for (Py_ssize_t i = 0; is_merged && i < parts; i++) {
        is_merged = append_batch(state, &merged, PyTuple_GetItem(batches, i));
    }
    for (size_t i = 0; i < opened; i++) PyBuffer_Release(merged.columns + i);
    if (is_merged && (merged.room.left || merged.count != messages)) {
        PyErr_SetString(PyExc_ValueError, "batches that are not as large as they say");
        is_merged = 0;
    }
    if (is_merged) {
        result = Py_BuildValue(
            "OlOOOOOOK", wire, merged.channel, columns[STARTS], columns[HEADERS], columns[ENDS],
            columns[KEYS], merged.distinct, persistent, (unsigned long long)merged.largest);
    }
done:
    for (size_t i = 0; i < COLUMNS; i++) Py_XDECREF(columns[i]);
    Py_XDECREF(wire);
    Py_XDECREF(persistent);
    Py_XDECREF(merged.numbers);
    Py_XDECREF(merged.distinct);
    Py_DECREF(batches);
    return result;
}

/* --- rows(keys, row_of_key, row_count, count) */

/* Empty rows of these sizes, in a list, and the room in each: `views` has their memory. */
static PyObject *new_rows(State *state, const size_t *counts, size_t rows, Py_buffer *views, RowRoom *rooms) {
    PyObject *made = PyList_New((Py_ssize_t)rows);
    for (size_t i = 0; made != NULL && i < rows; i++) {
        PyObject *row = new_column(state->short_column, counts[i], views + i);
        if (row == NULL || PyList_SetItem(made, (Py_ssize_t)i, row) < 0) {
            Py_CLEAR(made);
        } else {
            rooms[i].at = views[i].buf;
            rooms[i].left = (size_t)views[i].len / sizeof(uint32_t);
        }
    }
    return made;
}

static PyObject *rows_of(State *state, const Keyed *keyed, size_t rows) {
    Memory memory;
    Py_buffer *views = reserve(&memory, rows * (sizeof(Py_buffer) + sizeof(RowRoom) + sizeof(size_t)));
    if (views == NULL) return NULL;
    RowRoom *rooms = (RowRoom *)(views + rows);
    size_t *counts = (size_t *)(rooms + rows);
    memset(views, 0, rows * sizeof(Py_buffer));
    memset(counts, 0, rows * sizeof(size_t));
    PyObject *made = NULL;
    int is_sound = count_rows(keyed, counts, rows);
    if (is_sound) {
        made = new_rows(state, counts, rows, views, rooms);
        is_sound = made == NULL || put_rows(keyed, rooms, rows);
    }
    for (size_t i = 0; i < rows; i++) {
        if (views[i].obj != NULL) PyBuffer_Release(views + i);
    }
    release(&memory);
    if (!is_sound) {
        Py_CLEAR(made);
        PyErr_SetString(PyExc_IndexError, "a key or a row that is none");
    }
    return made;
}

static PyObject *rows(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    uint64_t row_count, messages;
    Column keys, row_of_key;
    PyObject *made = NULL;
    if (!has_arguments(count, 4)) return NULL;
    if (!read_number(args[2], UINT32_MAX, &row_count) || !read_number(args[3], UINT32_MAX, &messages)) return NULL;
    row_of_key.view.obj = NULL;
    if (open_column(args[0], &keys) && open_column(args[1], &row_of_key)) {
        if (messages > keys.count) {
            PyErr_SetString(PyExc_ValueError, "more messages than keys");
        } else {
            const Keyed keyed = {keys.values, (size_t)messages, row_of_key.values, row_of_key.count};
            made = rows_of(state_of(module), &keyed, (size_t)row_count);
        }
    }
    close_column(&keys);
    close_column(&row_of_key);
    return made;
}

/* --- split(indexes, flags, first_number), divide(indexes, chosen), ranges(indexes, first_number) */

/* A sequence of numbers as a column: the memory of an array itself, or a copy. */
typedef struct {
    Column column;
    Memory memory;
    const uint32_t *values;
    size_t count;
} Indexes;

static int open_indexes(PyObject *object, Indexes *indexes) {
    indexes->column.view.obj = NULL;
    indexes->memory.large = NULL;
    if (PyObject_CheckBuffer(object)) {
        if (!open_column(object, &indexes->column)) return 0;
        indexes->values = indexes->column.values;
        indexes->count = indexes->column.count;
        return 1;
    }
    const Py_ssize_t size = PySequence_Size(object);
    if (size < 0 || (uint64_t)size > UINT32_MAX) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_OverflowError, "more numbers than 32 bits can count");
        return 0;
    }
    uint32_t *values = reserve(&indexes->memory, (size_t)size * sizeof(uint32_t));
    if (values == NULL) return 0;
    indexes->values = values;
    indexes->count = (size_t)size;
    return read_indexes(object, values, indexes->count);
}

static void close_indexes(Indexes *indexes) {
    close_column(&indexes->column);
    release(&indexes->memory);
}

/* Two new rows of these sizes, and the room in each: `views` has their memory, if they have any. */
static int new_pair(State *state, PyObject **pair, const size_t counts[2], Py_buffer views[2], RowRoom rooms[2]) {
    for (size_t i = 0; i < 2; i++) {
        pair[i] = new_column(state->short_column, counts[i], views + i);
        if (pair[i] == NULL) {
            views[i].obj = NULL;
            return 0;
        }
        rooms[i].at = views[i].buf;
        rooms[i].left = counts[i];
    }
    return 1;
}

static void close_pair(Py_buffer views[2]) {
    for (size_t i = 0; i < 2; i++) {
        if (views[i].obj != NULL) PyBuffer_Release(views + i);
    }
}

static PyObject *split_of(State *state, const Indexes *indexes, Octets flags, uint64_t first_number) {
    const size_t found = count_flagged(indexes->values, indexes->count, flags);
    if (found == SIZE_MAX) {
        PyErr_SetString(PyExc_IndexError, "a message without a flag");
        return NULL;
    }
    const size_t counts[2] = {found, indexes->count - found};
    PyObject *pair[2] = {NULL, NULL}, *made = NULL;
    Py_buffer views[2] = {{0}, {0}}, numbers_view;
    RowRoom rooms[2];
    PyObject *numbers = new_column(state->long_column, found, &numbers_view);
    if (numbers == NULL) return NULL;
    if (new_pair(state, pair, counts, views, rooms)) {
        if (put_split(indexes->values, indexes->count, flags, rooms, numbers_view.buf, first_number, rooms + 1)) {
            made = PyTuple_Pack(3, pair[0], numbers, pair[1]);
        } else {
            PyErr_SetString(PyExc_ValueError, "rows that do not fit their room");
        }
    }
    PyBuffer_Release(&numbers_view);
    close_pair(views);
    Py_DECREF(numbers);
    Py_XDECREF(pair[0]);
    Py_XDECREF(pair[1]);
    return made;
}

static PyObject *split(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Indexes indexes;
    Py_buffer view;
    uint64_t first_number;
    PyObject *made = NULL;
    if (!has_arguments(count, 3)) return NULL;
    if (!read_number(args[2], UINT64_MAX - UINT32_MAX, &first_number)) return NULL;
    if (PyObject_GetBuffer(args[1], &view, PyBUF_SIMPLE) < 0) return NULL;
    if (open_indexes(args[0], &indexes)) {
        const Octets flags = {view.buf, (size_t)view.len};
        made = split_of(state_of(module), &indexes, flags, first_number);
    }
    close_indexes(&indexes);
    PyBuffer_Release(&view);
    return made;
}

static PyObject *divided_of(State *state, const Indexes *indexes, const Indexes *chosen) {
    const size_t found = count_common(indexes->values, indexes->count, chosen->values, chosen->count);
    const size_t counts[2] = {found, indexes->count - found};
    PyObject *pair[2] = {NULL, NULL}, *made = NULL;
    Py_buffer views[2] = {{0}, {0}};
    RowRoom rooms[2];
    if (new_pair(state, pair, counts, views, rooms)) {
        if (put_divided(indexes->values, indexes->count, chosen->values, chosen->count, rooms, rooms + 1)) {
            made = PyTuple_Pack(2, pair[0], pair[1]);
        } else {
            PyErr_SetString(PyExc_ValueError, "rows that do not fit their room");
        }
    }
    close_pair(views);
    Py_XDECREF(pair[0]);
    Py_XDECREF(pair[1]);
    return made;
}

static PyObject *divide(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Indexes indexes, chosen;
    PyObject *made = NULL;
    if (!has_arguments(count, 2)) return NULL;
    if (open_indexes(args[0], &indexes)) {
        if (open_indexes(args[1], &chosen)) made = divided_of(state_of(module), &indexes, &chosen);
        close_indexes(&chosen);
    }
    close_indexes(&indexes);
    return made;
}

static PyObject *range_of(uint64_t first, uint64_t last) {
    PyObject *numbers[2] = {PyLong_FromUnsignedLongLong(first), PyLong_FromUnsignedLongLong(last)};
    PyObject *made = NULL;
    if (numbers[0] != NULL && numbers[1] != NULL) made = PyTuple_Pack(2, numbers[0], numbers[1]);
    Py_XDECREF(numbers[0]);
    Py_XDECREF(numbers[1]);
    return made;
}

static PyObject *ranges(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    Indexes indexes;
    uint64_t first;
    if (!has_arguments(count, 2)) return NULL;
    if (!read_number(args[1], UINT64_MAX - UINT32_MAX, &first)) return NULL;
    PyObject *made = NULL;
    if (open_indexes(args[0], &indexes)) {
        made = PyList_New(0);
        for (size_t place = 0; made != NULL && place < indexes.count;) {
            const size_t end = range_end(indexes.values, indexes.count, place);
            PyObject *range = range_of(first + indexes.values[place], first + indexes.values[end - 1]);
            if (range == NULL || PyList_Append(made, range) < 0) Py_CLEAR(made);
            Py_XDECREF(range);
            place = end;
        }
    }
    close_indexes(&indexes);
    return made;
}

/* --- nsq_bodies(data, position, command, message_max, body_max, delay_max) */

/* Lay out the columns and topics of a run from `position` on, and scan it; `end` is where it ends.
   0: no memory, else `memory` is to be released. */
static int scan_commands(State *state, Bodies *run, Memory *memory, size_t position, size_t *end) {
    const size_t left = run->data.left - position;
    /* One more, so that a look is had at the command that is not whole. */
    run->room = left / (run->has_many ? MESSAGE_BYTES_MIN : PUB_BYTES_MIN) + 1;
    run->commands_room = left / (run->has_many ? MPUB_BYTES_MIN : PUB_BYTES_MIN) + 1;
    size_t slots = 4;
    while (slots < 2 * run->commands_room) slots *= 2;
    const size_t commands_bytes = run->commands_room * (sizeof(Octets) + sizeof(uint32_t));
    Octets *topics = reserve(memory, commands_bytes + (slots + 4 * run->room) * sizeof(uint32_t));
    if (topics == NULL) return 0;
    run->topics.octets = topics;
    run->topics.slots = (uint32_t *)(topics + run->commands_room);
    run->topics.slot_mask = slots - 1;
    run->topics.seed = state->seed;
    run->counts = run->topics.slots + slots;
    run->begins = run->counts + run->commands_room;
    run->ends = run->begins + run->room;
    run->numbers = run->ends + run->room;
    run->delays_ms = run->numbers + run->room;
    memset(run->topics.slots, 0, slots * sizeof(uint32_t));
    *end = scan_bodies(run, position);
    return 1;
}

/* End, topics, keys, begins, ends, counts, delays. */
static PyObject *nsq_bodies(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    State *state = state_of(module);
    Bodies run;
    memset(&run, 0, sizeof run);
    size_t position, end;
    if (!has_arguments(count, 6)) return NULL;
    if (!read_octets(args[0], &run.data) || !read_position(args[1], run.data, &position)) return NULL;
    if (!read_octets(args[2], &run.command) || !read_number(args[3], UINT64_MAX, &run.message_bytes_max)) return NULL;
    if (!read_number(args[4], UINT64_MAX, &run.body_bytes_max)) return NULL;
    if (!read_number(args[5], UINT32_MAX, &run.delay_ms_max)) return NULL;
    run.has_many = run.command.left == 4 && run.command.at[0] == 'M';
    run.is_delayed = run.command.left == 4 && run.command.at[0] == 'D';
    Memory memory;
    if (!scan_commands(state, &run, &memory, position, &end)) return NULL;
    PyObject *zero = state->short_column;
    PyObject *items[7] = {
        PyLong_FromSize_t(end),
        octets_list_of(run.topics.octets, run.topics.count),
        column_of(zero, run.numbers, run.count),
        column_of(zero, run.begins, run.count),
        column_of(zero, run.ends, run.count),
        column_of(zero, run.counts, run.has_many ? run.commands : 0),
        column_of(zero, run.delays_ms, run.is_delayed ? run.count : 0),
    };
    release(&memory);
    return tuple_of(items, 7);
}

/* --- nsq_publishes(data, topics, keys, begins, ends) */

/* Wire, starts, headers, ends, persistent, the largest frame's bytes. */
static PyObject *publishes_of(State *state, const Publishes *publishes) {
    const size_t bytes = publishes_bytes(publishes), count = publishes->count;
    if (bytes == SIZE_MAX) {
        PyErr_SetString(PyExc_ValueError, "bodies that lie outside the data, or have no topic");
        return NULL;
    }
    if (bytes > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "more octets than 32 bits can count");
        return NULL;
    }
    PyObject *wire = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    PyObject *persistent = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)count);
    PyObject *columns[3] = {NULL, NULL, NULL}, *made = NULL;
    Py_buffer views[3];
    size_t opened = 0, largest = 0;
    int is_written = wire != NULL && persistent != NULL;
    for (; is_written && opened < 3; opened += (size_t)is_written) {
        columns[opened] = new_column(state->short_column, count, views + opened);
        is_written = columns[opened] != NULL;
    }
    if (is_written) {
        const PublishPlaces places = {views[0].buf, views[1].buf, views[2].buf};
        Room room = {(uint8_t *)PyBytes_AsString(wire), bytes};
        memset(PyByteArray_AsString(persistent), 1, count);
        is_written = put_publishes(&room, publishes, places, &largest);
        if (!is_written) PyErr_SetString(PyExc_ValueError, "publishes that do not fit their room");
    }
    for (size_t i = 0; i < opened; i++) PyBuffer_Release(views + i);
    if (is_written) {
        made = Py_BuildValue("OOOOOn", wire, columns[0], columns[1], columns[2], persistent, (Py_ssize_t)largest);
    }
    for (size_t i = 0; i < 3; i++) Py_XDECREF(columns[i]);
    Py_XDECREF(wire);
    Py_XDECREF(persistent);
    return made;
}

static PyObject *nsq_publishes(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Publishes publishes;
    Column columns[3];
    Memory memory;
    PyObject *made = NULL;
    if (!has_arguments(count, 5) || !read_octets(args[0], &publishes.data)) return NULL;
    if (!PyList_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "topics must be a list");
        return NULL;
    }
    publishes.topics_count = (size_t)PyList_Size(args[1]);
    Octets *topics = reserve(&memory, publishes.topics_count * sizeof(Octets));
    if (topics == NULL) return NULL;
    publishes.topics = topics;
    int is_read = 1;
    for (size_t i = 0; is_read && i < publishes.topics_count; i++) {
        is_read = read_octets(PyList_GetItem(args[1], (Py_ssize_t)i), topics + i);
    }
    for (size_t i = 0; i < 3; i++) columns[i].view.obj = NULL;
    for (size_t i = 0; is_read && i < 3; i++) is_read = open_column(args[2 + i], columns + i);
    publishes.count = is_read ? columns[0].count : 0;
    if (is_read && (columns[1].count != publishes.count || columns[2].count != publishes.count)) {
        PyErr_SetString(PyExc_ValueError, "columns of different sizes");
        is_read = 0;
    }
    if (is_read) {
        publishes.numbers = columns[0].values;
        publishes.begins = columns[1].values;
        publishes.ends = columns[2].values;
        made = publishes_of(state_of(module), &publishes);
    }
    for (size_t i = 0; i < 3; i++) close_column(columns + i);
    release(&memory);
    return made;
}

/* --- nsq_finishes(data, position) */

static PyObject *nsq_finishes(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    Octets data;
    size_t position;
    if (!has_arguments(count, 2)) return NULL;
    if (!read_octets(args[0], &data) || !read_position(args[1], data, &position)) return NULL;
    PyObject *ranges = PyList_New(0);
    while (ranges != NULL) {
        uint64_t first, last;
        const size_t end = read_finishes(data, position, &first, &last);
        if (end == position) break;
        PyObject *range = range_of(first, last);
        if (range == NULL || PyList_Append(ranges, range) < 0) Py_CLEAR(ranges);
        Py_XDECREF(range);
        position = end;
    }
    PyObject *items[2] = {ranges, PyLong_FromSize_t(position)};
    return tuple_of(items, 2);
}

/* --- nsq_messages(wire, headers, ends, indexes, first_id, attempts, timestamp) */

static PyObject *messages_of(const Sent *sent) {
    const size_t bytes = sent_bytes(sent);
    PyObject *frames = NULL;
    if (bytes <= (size_t)PY_SSIZE_T_MAX) {
        frames = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
        if (frames == NULL) return NULL;
        Room room = {(uint8_t *)PyBytes_AsString(frames), bytes};
        if (!put_sent(&room, sent)) Py_CLEAR(frames);
    }
    if (frames == NULL) PyErr_SetString(PyExc_ValueError, "contents that are no row of frames");
    return frames;
}

static PyObject *nsq_messages(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    Sent sent;
    uint64_t attempts;
    Column headers, ends;
    Indexes indexes;
    PyObject *frames = NULL;
    if (!has_arguments(count, 7) || !read_octets(args[0], &sent.wire)) return NULL;
    if (!read_number(args[4], UINT64_MAX, &sent.first_id)) return NULL;
    if (!read_number(args[5], UINT16_MAX, &attempts)) return NULL;
    if (!read_number(args[6], UINT64_MAX, &sent.timestamp_ns)) return NULL;
    sent.attempts = (uint16_t)attempts;
    ends.view.obj = NULL;
    if (open_column(args[1], &headers) && open_column(args[2], &ends)) {
        if (open_indexes(args[3], &indexes)) {
            sent.headers = headers.values;
            sent.ends = ends.values;
            sent.places_count = headers.count < ends.count ? headers.count : ends.count;
            sent.indexes = indexes.values;
            sent.count = indexes.count;
            frames = messages_of(&sent);
        }
        close_indexes(&indexes);
    }
    close_column(&headers);
    close_column(&ends);
    return frames;
}

/* --- The module */

static PyMethodDef METHODS[] = {
    {"publishes", (PyCFunction)(void (*)(void))publishes, METH_FASTCALL, NULL},
    {"publishes_alone", (PyCFunction)(void (*)(void))publishes_alone, METH_FASTCALL, NULL},
    {"acks", (PyCFunction)(void (*)(void))acks, METH_FASTCALL, NULL},
    {"deliveries", (PyCFunction)(void (*)(void))deliveries, METH_FASTCALL, NULL},
    {"returns", (PyCFunction)(void (*)(void))returns, METH_FASTCALL, NULL},
    {"answers", (PyCFunction)(void (*)(void))answers, METH_FASTCALL, NULL},
    {"merge", (PyCFunction)(void (*)(void))merge, METH_FASTCALL, NULL},
    {"rows", (PyCFunction)(void (*)(void))rows, METH_FASTCALL, NULL},
    {"split", (PyCFunction)(void (*)(void))split, METH_FASTCALL, NULL},
    {"divide", (PyCFunction)(void (*)(void))divide, METH_FASTCALL, NULL},
    {"ranges", (PyCFunction)(void (*)(void))ranges, METH_FASTCALL, NULL},
    {"nsq_bodies", (PyCFunction)(void (*)(void))nsq_bodies, METH_FASTCALL, NULL},
    {"nsq_publishes", (PyCFunction)(void (*)(void))nsq_publishes, METH_FASTCALL, NULL},
    {"nsq_finishes", (PyCFunction)(void (*)(void))nsq_finishes, METH_FASTCALL, NULL},
    {"nsq_messages", (PyCFunction)(void (*)(void))nsq_messages, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL}};

/* An array of one 0; its items must have so many bytes. */
static PyObject *zero_of(PyObject *array, const char *kind, Py_ssize_t bytes) {
    PyObject *made = PyObject_CallMethod(array, "array", "s(i)", kind, 0);
    Py_buffer view;
    if (made == NULL) return NULL;
    if (PyObject_GetBuffer(made, &view, PyBUF_SIMPLE) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    if (view.len != bytes) {
        PyErr_SetString(PyExc_ImportError, "items of arrays have other sizes than expected");
        Py_CLEAR(made);
    }
    PyBuffer_Release(&view);
    return made;
}

static int prepare(PyObject *module) {
    State *state = state_of(module);
    if (PyModule_AddIntConstant(module, "REVISION", REVISION) < 0) return -1;
    PyObject *array = PyImport_ImportModule("array");
    if (array == NULL) return -1;
    state->short_column = zero_of(array, "I", 4);
    state->long_column = zero_of(array, "Q", 8);
    Py_DECREF(array);
    if (state->short_column == NULL || state->long_column == NULL) return -1;
    for (size_t i = 0; i < ASKED; i++) {
        state->names[i] = PyUnicode_InternFromString(ASKED_NAMES[i]);
        if (state->names[i] == NULL) return -1;
    }
    PyObject *os = PyImport_ImportModule("os");
    if (os == NULL) return -1;
    PyObject *seed = PyObject_CallMethod(os, "urandom", "n", (Py_ssize_t)sizeof(Seed));
    Py_DECREF(os);
    Octets octets;
    if (seed == NULL || !read_octets(seed, &octets)) {
        Py_XDECREF(seed);
        return -1;
    }
    if (octets.left == sizeof(Seed)) memcpy(&state->seed, octets.at, sizeof(Seed));
    Py_DECREF(seed);
    return 0;
}

static int visit_state(PyObject *module, visitproc visit, void *arg) {
    State *state = state_of(module);
    Py_VISIT(state->short_column);
    Py_VISIT(state->long_column);
    return 0;
}

static int clear_state(PyObject *module) {
    State *state = state_of(module);
    Py_CLEAR(state->short_column);
    Py_CLEAR(state->long_column);
    for (size_t i = 0; i < ASKED; i++) Py_CLEAR(state->names[i]);
    return 0;
}

static PyModuleDef_Slot SLOTS[] = {
    {Py_mod_exec, prepare},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL}};

static PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "_codec", .m_size = sizeof(State), .m_methods = METHODS,
    .m_slots = SLOTS, .m_traverse = visit_state, .m_clear = clear_state};

PyMODINIT_FUNC PyInit__codec(void) { return PyModuleDef_Init(&MODULE); }
