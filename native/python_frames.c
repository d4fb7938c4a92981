/* parlora._native_frames: the ring calls that are made once per frame, written against Python's own C interface.
 *
 * cffi lets go of the interpreter lock on every call. A call here takes a fraction of a microsecond, but getting the
 * lock back can take 5 ms when another thread is busy; so these keep it, and only a wait lets it go. They also build
 * the frames as Python objects straight from the ring's memory. All take the ring as the number of its address, which
 * parlora.audio.ring keeps valid, and follow ring.h otherwise. The stable interface of Python 3.11 is enough. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "ring.h"

static PyTypeObject *header_type;

static PyStructSequence_Field header_fields[] = {
    {"bytes", "payload bytes"},
    {"sequence", "0, 1, 2, ... in the order of admission"},
    {"epoch", "the epoch it was admitted under"},
    {"ts_us", "when the audio came into being, as the writer says"},
    {"admitted_us", "when it entered this ring"},
    {"duration_us", "its play time"},
    {"flags", "the writer's own"},
    {NULL, NULL},
};

static PyStructSequence_Desc header_description = {
    "parlora._native_frames.FrameHeader", "What travels with a frame.", header_fields, 7};

/* Exactly `wanted` arguments, the first of which is a ring. NULL with an exception otherwise. */
static pl_ring *ring_of(PyObject *const *args, Py_ssize_t count, Py_ssize_t wanted)
{
    if (count != wanted) {
        PyErr_Format(PyExc_TypeError, "%zd arguments expected, got %zd", wanted, count);
        return NULL;
    }
    return PyLong_AsVoidPtr(args[0]); /* NULL only with an exception: parlora.audio.ring never passes 0 */
}

static uint64_t number(PyObject *value)
{
    return PyLong_AsUnsignedLongLong(value);
}

/* None is "the current epoch". */
static uint64_t epoch_of(PyObject *value)
{
    return value == Py_None ? PL_EPOCH_CURRENT : number(value);
}

/* A buffer no longer than a frame length can say; longer ones are too big for every ring anyway. */
static int get_data(PyObject *object, Py_buffer *data)
{
    if (PyObject_GetBuffer(object, data, PyBUF_SIMPLE))
        return -1;
    if (data->len > (Py_ssize_t)(UINT32_MAX / 2)) {
        PyBuffer_Release(data);
        PyErr_SetString(PyExc_OverflowError, "more than 2 GiB of data");
        return -1;
    }
    return 0;
}

/* write(ring, data, epoch | None, ts_us, duration_us, flags) -> verdict */
static PyObject *write_frame(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    pl_ring *ring = ring_of(args, count, 6);
    if (!ring)
        return NULL;
    uint64_t epoch = epoch_of(args[2]), ts_us = number(args[3]), duration_us = number(args[4]), flags = number(args[5]);
    Py_buffer data;
    if (PyErr_Occurred() || get_data(args[1], &data))
        return NULL;
    int verdict = pl_ring_write(ring, data.buf, (uint32_t)data.len, epoch, ts_us, (uint32_t)duration_us,
                                (uint32_t)flags);
    PyBuffer_Release(&data);
    return PyLong_FromLong(verdict);
}

/* write_packet(ring, data, frame_bytes, epoch | None, ts_us, frame_us, flags, whole) -> (frames taken, verdict) */
static PyObject *write_packet(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    pl_ring *ring = ring_of(args, count, 8);
    if (!ring)
        return NULL;
    uint64_t frame_bytes = number(args[2]), epoch = epoch_of(args[3]), ts_us = number(args[4]);
    uint64_t frame_us = number(args[5]), flags = number(args[6]);
    int whole = PyObject_IsTrue(args[7]), verdict;
    Py_buffer data;
    if (PyErr_Occurred() || get_data(args[1], &data))
        return NULL;
    uint32_t size = frame_bytes > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)frame_bytes;
    uint32_t taken = pl_ring_write_packet(ring, data.buf, (uint32_t)data.len, size, epoch, ts_us, (uint32_t)frame_us,
                                          (uint32_t)flags, whole, &verdict);
    PyBuffer_Release(&data);
    return Py_BuildValue("Ii", (unsigned)taken, verdict);
}

/* Steals `item`, also on failure. */
static int set_item(PyObject *header, Py_ssize_t index, PyObject *item)
{
    if (!item)
        return -1;
    PyStructSequence_SetItem(header, index, item);
    return 0;
}

static PyObject *new_header(const pl_frame *frame)
{
    PyObject *header = PyStructSequence_New(header_type);
    if (!header)
        return NULL;
    if (set_item(header, 0, PyLong_FromUnsignedLong(frame->bytes)) ||
        set_item(header, 1, PyLong_FromUnsignedLongLong(frame->sequence)) ||
        set_item(header, 2, PyLong_FromUnsignedLongLong(frame->epoch)) ||
        set_item(header, 3, PyLong_FromUnsignedLongLong(frame->ts_us)) ||
        set_item(header, 4, PyLong_FromUnsignedLongLong(frame->admitted_us)) ||
        set_item(header, 5, PyLong_FromUnsignedLong(frame->duration_us)) ||
        set_item(header, 6, PyLong_FromUnsignedLong(frame->flags)))
        Py_CLEAR(header);
    return header;
}

static PyObject *new_pair(const pl_frame *frame, const void *payload)
{
    PyObject *header = new_header(frame), *pair = NULL;
    PyObject *data = header ? PyBytes_FromStringAndSize(payload, (Py_ssize_t)frame->bytes) : NULL;
    if (data)
        pair = PyTuple_Pack(2, header, data);
    Py_XDECREF(header);
    Py_XDECREF(data);
    return pair;
}

/* Appends up to max_frames frames of at most max_bytes together. 0, or -1 with an exception; nothing is consumed that
 * is not in the list. A clear that overtakes a frame between look and commit takes it out again. */
static int read_into(PyObject *list, pl_ring *ring, uint64_t max_bytes, uint64_t max_frames, int *verdict)
{
    uint64_t used = 0;
    *verdict = PL_OK;
    while ((uint64_t)PyList_Size(list) < max_frames) {
        pl_frame frame;
        const void *payload = pl_ring_peek(ring, &frame, verdict);
        if (!payload || frame.bytes > max_bytes - used)
            return 0;
        PyObject *pair = new_pair(&frame, payload);
        if (!pair)
            return -1;
        int failed = 0;
        if (pl_ring_commit(ring) == PL_OK) {
            used += frame.bytes;
            failed = PyList_Append(list, pair);
        }
        Py_DECREF(pair);
        if (failed)
            return -1;
    }
    return 0;
}

/* The list, or the verdict's number if it is empty for another reason than there being nothing. Steals `list`. */
static PyObject *list_or_verdict(PyObject *list, int verdict)
{
    if (PyList_Size(list) || verdict == PL_OK || verdict == PL_EMPTY)
        return list;
    Py_DECREF(list);
    return PyLong_FromLong(verdict);
}

/* read(ring, max_bytes, max_frames) -> [(header, data), ...] | verdict */
static PyObject *read_frames(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    pl_ring *ring = ring_of(args, count, 3);
    if (!ring)
        return NULL;
    uint64_t max_bytes = number(args[1]), max_frames = number(args[2]);
    PyObject *list = PyErr_Occurred() ? NULL : PyList_New(0);
    int verdict;
    if (!list)
        return NULL;
    if (read_into(list, ring, max_bytes, max_frames, &verdict)) {
        Py_DECREF(list);
        return NULL;
    }
    return list_or_verdict(list, verdict);
}

/* read_packet(ring, max_bytes) -> (header, frames, data) | verdict: see pl_ring_look. */
static PyObject *read_packet(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    pl_ring *ring = ring_of(args, count, 2);
    uint64_t max_bytes = ring ? number(args[1]) : 0;
    if (PyErr_Occurred())
        return NULL;
    pl_frame joined;
    int verdict;
    uint32_t frames = pl_ring_look(ring, max_bytes, &joined, &verdict);
    if (!frames)
        return PyLong_FromLong(verdict);
    PyObject *header = new_header(&joined), *packet = NULL;
    PyObject *data = header ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)joined.bytes) : NULL;
    if (data) {
        verdict = pl_ring_take(ring, PyBytes_AsString(data), frames);
        packet = verdict == PL_OK ? Py_BuildValue("OIO", header, (unsigned)frames, data) : PyLong_FromLong(verdict);
    }
    Py_XDECREF(header);
    Py_XDECREF(data);
    return packet;
}

/* Waits with the interpreter lock free; signal handlers run in between. A verdict, or -1 with an exception. */
static int wait_unlocked(pl_ring *ring, int for_space, uint32_t bytes, int64_t deadline_us)
{
    for (;;) {
        int verdict;
        Py_BEGIN_ALLOW_THREADS
        verdict = for_space ? pl_ring_wait_space(ring, bytes, deadline_us) : pl_ring_wait_data(ring, deadline_us);
        Py_END_ALLOW_THREADS
        if (verdict != PL_INTERRUPTED)
            return verdict;
        if (PyErr_CheckSignals())
            return -1;
    }
}

/* receive(ring, max_bytes, max_frames, deadline_us) -> [(header, data), ...] | verdict: read, or wait and read. */
static PyObject *receive_frames(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    pl_ring *ring = ring_of(args, count, 4);
    if (!ring)
        return NULL;
    uint64_t max_bytes = number(args[1]), max_frames = number(args[2]);
    int64_t deadline_us = PyLong_AsLongLong(args[3]);
    PyObject *list = PyErr_Occurred() ? NULL : PyList_New(0);
    if (!list)
        return NULL;
    for (int waited = PL_OK;;) {
        int verdict;
        if (read_into(list, ring, max_bytes, max_frames, &verdict))
            break;
        if (PyList_Size(list) || verdict != PL_EMPTY)
            return list_or_verdict(list, verdict);
        if (waited != PL_OK) /* what arrived together with the end of the wait was looked for */
            return list_or_verdict(list, waited);
        waited = wait_unlocked(ring, 0, 0, deadline_us);
        if (waited < 0)
            break;
    }
    Py_DECREF(list);
    return NULL;
}

/* wait_data(ring, deadline_us) -> verdict */
static PyObject *wait_data(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    pl_ring *ring = ring_of(args, count, 2);
    int64_t deadline_us = ring ? PyLong_AsLongLong(args[1]) : 0;
    int verdict = PyErr_Occurred() ? -1 : wait_unlocked(ring, 0, 0, deadline_us);
    return verdict < 0 ? NULL : PyLong_FromLong(verdict);
}

/* wait_space(ring, bytes, deadline_us) -> verdict */
static PyObject *wait_space(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    pl_ring *ring = ring_of(args, count, 3);
    uint64_t bytes = ring ? number(args[1]) : 0;
    int64_t deadline_us = ring ? PyLong_AsLongLong(args[2]) : 0;
    int verdict = PyErr_Occurred() ? -1 : wait_unlocked(ring, 1, (uint32_t)bytes, deadline_us);
    return verdict < 0 ? NULL : PyLong_FromLong(verdict);
}

/* arm_data(ring) -> bool */
static PyObject *arm_data(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    pl_ring *ring = ring_of(args, count, 1);
    return ring ? PyBool_FromLong(pl_ring_arm_data(ring)) : NULL;
}

/* arm_space(ring, bytes) -> bool */
static PyObject *arm_space(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    pl_ring *ring = ring_of(args, count, 2);
    uint64_t bytes = ring ? number(args[1]) : 0;
    return PyErr_Occurred() ? NULL : PyBool_FromLong(pl_ring_arm_space(ring, (uint32_t)bytes));
}

/* consume_event(descriptor): never blocks, the events are non-blocking */
static PyObject *consume_event(PyObject *module, PyObject *descriptor)
{
    long number_of = PyLong_AsLong(descriptor);
    if (number_of == -1 && PyErr_Occurred())
        return NULL;
    pl_event_consume((int)number_of);
    Py_RETURN_NONE;
}

#define CALL(name, function) {name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, NULL}

static PyMethodDef methods[] = {
    CALL("write", write_frame),
    CALL("write_packet", write_packet),
    CALL("read", read_frames),
    CALL("read_packet", read_packet),
    CALL("receive", receive_frames),
    CALL("wait_data", wait_data),
    CALL("wait_space", wait_space),
    CALL("arm_data", arm_data),
    CALL("arm_space", arm_space),
    {"consume_event", consume_event, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "parlora._native_frames", "Ring calls made once per frame.", -1, methods, NULL, NULL, NULL,
    NULL};

PyMODINIT_FUNC PyInit__native_frames(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    header_type = PyStructSequence_NewType(&header_description);
    if (!header_type || PyModule_AddObjectRef(module, "FrameHeader", (PyObject *)header_type)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
