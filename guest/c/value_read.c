/* The reader of value.h; docs/design/values.md has the tags, and what bounds it. Like the writer it walks a
 * stack of open containers of its own. */
#include "value_keys.h"
#include "value_parts.h"

enum {
    KEY_NUMBER_MAX = 2048, /* bytes of a number in a key: int == Decimal is quadratic in them */
    UNGUARDED_KEYS = 64,   /* so few keys cannot collide expensively */
    CACHED_KEYS = 32,      /* as many as reader.cached has bits */
    CACHED_KEY_LEN = 24
};

/* A container that is being read. */
typedef struct pending {
    enum kind kind;
    bool in_key;
    uint8_t key_depth;
    Py_ssize_t i, n;  /* items there, items announced */
    size_t item;      /* where the current item or key begins */
    PyObject *object;
    PyObject *key;    /* DICT: waits for its value */
    key_guard *guard;     /* NULL: not needed so far */
} pending;

typedef struct reader {
    const uint8_t *bytes;
    size_t pos, len;
    size_t owed;      /* items that open containers still announce, each a byte at least */
    size_t items;
    uint64_t fraction_work;
    pending *stack;
    int depth, room;
    PyObject *class[CLASSES];
    PyObject *cache[CACHED_KEYS]; /* short keys, by their bytes: records repeat them */
    uint32_t cached;              /* which of them are there */
    pending first[INLINE_DEPTH];
} reader;

typedef struct head {
    enum major major;
    uint8_t info;
    uint64_t n;
} head;

/* Raises ValueError "byte N: ...". Answers NULL. */
static void *wrong(size_t at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    PyObject *text = PyUnicode_FromFormatV(format, args);
    va_end(args);
    if (text) PyErr_Format(PyExc_ValueError, "byte %zu: %U", at, text);
    Py_XDECREF(text);
    return NULL;
}

/* The same in place of the exception that is set, whose text it takes over; MemoryError stays. */
static void *wrong_as_raised(size_t at, const char *what) {
    if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception)) return NULL;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    if (text && PyUnicode_GET_LENGTH(text) > 0) {
        wrong(at, "not a valid %s: %.200U", what, text);
    } else if (!PyErr_Occurred() || !PyErr_ExceptionMatches(PyExc_MemoryError)) {
        PyErr_Clear();
        wrong(at, "not a valid %s", what);
    }
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return NULL;
}

static bool in_key(const reader *r) {
    if (r->depth == 0) return false;
    const pending *p = &r->stack[r->depth - 1];
    return p->in_key || p->kind == SET || p->kind == FROZENSET || (p->kind == DICT && !p->key);
}

static inline bool read_head(reader *r, head *h) {
    size_t at = r->pos;
    if (at == r->len) return wrong(at, "the value ends early"), false;
    uint8_t first = r->bytes[r->pos++];
    h->major = (enum major)(first >> 5);
    h->info = first & 31;
    h->n = h->info;
    if (h->info < 24) return true;
    if (h->info > 27) return wrong(at, "indefinite or reserved length"), false;
    size_t size = (size_t)1 << (h->info - 24);
    if (size > r->len - r->pos) return wrong(at, "the value ends early"), false;
    h->n = load(r->bytes + r->pos, (int)size);
    r->pos += size;
    return true;
}

/* `n` bytes, borrowed from the input. */
static inline const uint8_t *read_span(reader *r, size_t at, uint64_t n) {
    if (n > r->len - r->pos) return wrong(at, "%llu bytes announced, %zu left", (unsigned long long)n, r->len - r->pos);
    const uint8_t *p = r->bytes + r->pos;
    r->pos += (size_t)n;
    return p;
}

/* What a tag is over: a byte string or text. */
static const uint8_t *read_tagged(reader *r, enum major major, size_t at, const char *what, size_t *len) {
    head h;
    if (!read_head(r, &h)) return NULL;
    if (h.major != major) return wrong(at, "not a valid %s: of another kind", what);
    const uint8_t *p = read_span(r, at, h.n);
    if (p) *len = (size_t)h.n;
    return p;
}

static PyObject *text_of(const uint8_t *p, size_t n, size_t at) {
    PyObject *text = PyUnicode_DecodeUTF8((const char *)p, (Py_ssize_t)n, NULL);
    return text ? text : wrong_as_raised(at, "text");
}

/* A text in the place of a dict's key. */
static PyObject *key_of(reader *r, const uint8_t *p, size_t n, size_t at) {
    if (n == 0 || n > CACHED_KEY_LEN) return text_of(p, n, at);
    unsigned slot = (unsigned)(p[0] * 7u + p[n / 2] * 5u + p[n - 1] * 3u + n) % CACHED_KEYS;
    PyObject *known = r->cached >> slot & 1 ? r->cache[slot] : NULL;
    if (known && (size_t)PyUnicode_GET_LENGTH(known) == n && memcmp(PyUnicode_DATA(known), p, n) == 0) return Py_NewRef(known);
    PyObject *text = text_of(p, n, at);
    if (!text || !PyUnicode_IS_ASCII(text)) return text;
    r->cache[slot] = Py_NewRef(text);
    r->cached |= 1u << slot;
    Py_XDECREF(known);
    return text;
}

static PyObject *read_surrogates(reader *r, size_t at) {
    size_t len = 0;
    const uint8_t *p = read_tagged(r, BYTES, at, "text", &len);
    if (!p) return NULL;
    PyObject *text = PyUnicode_DecodeUTF8((const char *)p, (Py_ssize_t)len, "surrogatepass");
    return text ? text : wrong_as_raised(at, "text");
}

static PyObject *read_big(reader *r, bool negative, size_t at) {
    size_t len = 0;
    const uint8_t *p = read_tagged(r, BYTES, at, "int", &len);
    if (!p) return NULL;
    if (len > KEY_NUMBER_MAX && in_key(r)) return wrong(at, "a number of %zu bytes in a key", len);
    PyObject *n = long_load(p, len);
    if (!n || !negative) return n;
    PyObject *inverted = PyNumber_Invert(n);
    Py_DECREF(n);
    return inverted;
}

static PyObject *read_int(reader *r, size_t at, const char *what) {
    head h;
    if (!read_head(r, &h)) return NULL;
    if (h.major == UINT) return PyLong_FromUnsignedLongLong(h.n);
    if (h.major == TAG && (h.n == TAG_BIG || h.n == TAG_BIG_NEGATIVE)) return read_big(r, h.n == TAG_BIG_NEGATIVE, at);
    if (h.major != NEGATIVE) return wrong(at, "not a valid %s: no int", what);
    if (h.n <= INT64_MAX) return PyLong_FromLongLong(-1 - (long long)h.n);
    PyObject *n = PyLong_FromUnsignedLongLong(h.n);
    PyObject *inverted = n ? PyNumber_Invert(n) : NULL;
    Py_XDECREF(n);
    return inverted;
}

static double double_of(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static bool read_pair(reader *r, size_t at, const char *what) {
    head h;
    if (!read_head(r, &h)) return false;
    if (h.major != ARRAY || h.n != 2) return wrong(at, "not a valid %s: no pair", what), false;
    return true;
}

static PyObject *read_complex(reader *r, size_t at) {
    if (!read_pair(r, at, "complex")) return NULL;
    double parts[2];
    for (int i = 0; i < 2; i++) {
        head h;
        if (!read_head(r, &h)) return NULL;
        if (h.major != SIMPLE || h.info != 27) return wrong(at, "not a valid complex: no float");
        parts[i] = double_of(h.n);
    }
    return PyComplex_FromDoubles(parts[0], parts[1]);
}

/* Borrowed. */
static PyObject *class_of(reader *r, enum class c) {
    if (r->class[c]) return r->class[c];
    PyObject *module = PyImport_ImportModule(classes[c].module);
    if (!module) return NULL;
    r->class[c] = attribute(module, classes[c].name);
    Py_DECREF(module);
    return r->class[c];
}

static PyObject *read_fraction(reader *r, size_t at) {
    if (!read_pair(r, at, "Fraction")) return NULL;
    size_t begin = r->pos;
    PyObject *above = read_int(r, at, "Fraction"), *below = NULL, *class, *made = NULL;
    if (!above) return NULL;
    below = read_int(r, at, "Fraction");
    if (!below) goto out;
    int overflow;
    if (PyLong_AsLongLongAndOverflow(below, &overflow) <= 0 && overflow <= 0) {
        wrong(at, "not a valid Fraction: its denominator is not positive");
        goto out;
    }
    if (!fraction_affordable(&r->fraction_work, r->pos - begin)) {
        wrong(at, "fractions with too many digits");
        goto out;
    }
    class = class_of(r, FRACTION);
    if (class) made = PyObject_CallFunctionObjArgs(class, above, below, NULL);
out:
    Py_DECREF(above);
    Py_XDECREF(below);
    return made;
}

static PyObject *read_uuid(reader *r, size_t at) {
    size_t len = 0;
    const uint8_t *p = read_tagged(r, BYTES, at, "UUID", &len);
    if (!p) return NULL;
    if (len != 16) return wrong(at, "not a valid UUID: %zu bytes", len);
    PyObject *class = class_of(r, UUID);
    if (!class) return NULL;
    PyObject *none = PyTuple_New(0), *made = NULL;
    PyObject *kwargs = none ? Py_BuildValue("{s:y#}", "bytes", (const char *)p, (Py_ssize_t)len) : NULL;
    if (kwargs) made = PyObject_Call(class, none, kwargs);
    Py_XDECREF(kwargs);
    Py_XDECREF(none);
    return made;
}

static bool is_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

static size_t digits(const uint8_t *p, size_t n) {
    size_t i = 0;
    while (i < n && is_digit(p[i])) i++;
    return i;
}

/* Whether the text is a Decimal's str(): its constructor takes more than that, and what it makes
 * of what it does not take depends on the context. */
static bool is_decimal(const uint8_t *p, size_t n) {
    if (n > 0 && *p == '-') p++, n--;
    if (n == 8 && memcmp(p, "Infinity", 8) == 0) return true;
    if (n > 0 && *p == 's') {
        p++, n--;
        if (n == 0 || *p != 'N') return false;
    }
    if (n >= 3 && memcmp(p, "NaN", 3) == 0) return digits(p + 3, n - 3) == n - 3;
    size_t k = digits(p, n);
    if (k == 0) return false;
    p += k, n -= k;
    if (n > 0 && *p == '.') {
        k = digits(p + 1, n - 1);
        if (k == 0) return false;
        p += k + 1, n -= k + 1;
    }
    if (n == 0) return true;
    if (*p != 'E' && *p != 'e') return false;
    p++, n--;
    if (n > 0 && (*p == '+' || *p == '-')) p++, n--;
    return n > 0 && digits(p, n) == n;
}

/* Whether a Decimal beyond the limits was quietly made NaN, as a context that traps nothing does. */
static int became_nan(PyObject *made, const uint8_t *p, size_t n) {
    if (memchr(p, 'N', n)) return 0;
    PyObject *nan = call_method(made, "is_nan");
    int rc = nan ? PyObject_IsTrue(nan) : -1;
    Py_XDECREF(nan);
    return rc;
}

static PyObject *read_decimal(reader *r, size_t at) {
    size_t len = 0;
    const uint8_t *p = read_tagged(r, TEXT, at, "Decimal", &len);
    if (!p) return NULL;
    if (len > KEY_NUMBER_MAX && in_key(r)) return wrong(at, "a number of %zu bytes in a key", len);
    if (!is_decimal(p, len)) return wrong(at, "not a valid Decimal");
    PyObject *class = class_of(r, DECIMAL);
    PyObject *text = class ? text_of(p, len, at) : NULL;
    if (!text) return NULL;
    PyObject *made = PyObject_CallOneArg(class, text);
    Py_DECREF(text);
    if (!made) {
        if (PyErr_ExceptionMatches(PyExc_ArithmeticError)) wrong_as_raised(at, "Decimal");
        return NULL;
    }
    int nan = became_nan(made, p, len);
    if (nan == 0) return made;
    Py_DECREF(made);
    return nan < 0 ? NULL : wrong(at, "not a valid Decimal: beyond its limits");
}

static bool datetime_ready(void) {
    if (!PyDateTimeAPI) PyDateTime_IMPORT;
    return PyDateTimeAPI != NULL;
}

/* The time zone at the end of a time's bytes: a new reference, None if it has none. */
static PyObject *zone_of(const uint8_t *p, size_t len) {
    if (len == 0) return Py_NewRef(Py_None);
    int64_t us = (int64_t)load(p, OFFSET_LEN);
    if (us <= -86400 * US_PER_S || us >= 86400 * US_PER_S) {
        PyErr_SetString(PyExc_ValueError, "its offset is a day or more");
        return NULL;
    }
    PyObject *delta = PyDelta_FromDSU(0, (int)(us / US_PER_S), (int)(us % US_PER_S));
    PyObject *zone = delta ? PyTimeZone_FromOffset(delta) : NULL;
    Py_XDECREF(delta);
    return zone;
}

/* The bytes of a time or datetime, whose time zone is in *zone then. */
static const uint8_t *read_moment(reader *r, size_t at, const char *what, size_t size, PyObject **zone) {
    size_t len = 0;
    const uint8_t *p = read_tagged(r, BYTES, at, what, &len);
    if (!p) return NULL;
    if (len != size && len != size + OFFSET_LEN) return wrong(at, "not a valid %s: %zu bytes", what, len);
    if (!datetime_ready()) return NULL;
    *zone = zone_of(p + size, len - size);
    return *zone ? p : wrong_as_raised(at, what);
}

static PyObject *read_datetime(reader *r, size_t at) {
    PyObject *zone;
    const uint8_t *p = read_moment(r, at, "datetime", DATETIME_LEN, &zone);
    if (!p) return NULL;
    PyObject *made = PyDateTimeAPI->DateTime_FromDateAndTimeAndFold(
        (int)load(p, 2), p[2], p[3], p[4], p[5], p[6], (int)load(p + 7, 3), zone, p[10], PyDateTimeAPI->DateTimeType);
    Py_DECREF(zone);
    return made ? made : wrong_as_raised(at, "datetime");
}

static PyObject *read_time(reader *r, size_t at) {
    PyObject *zone;
    const uint8_t *p = read_moment(r, at, "time", TIME_LEN, &zone);
    if (!p) return NULL;
    PyObject *made = PyDateTimeAPI->Time_FromTimeAndFold(p[0], p[1], p[2], (int)load(p + 3, 3), zone, p[6], PyDateTimeAPI->TimeType);
    Py_DECREF(zone);
    return made ? made : wrong_as_raised(at, "time");
}

static PyObject *read_date(reader *r, size_t at) {
    size_t len = 0;
    const uint8_t *p = read_tagged(r, TEXT, at, "date", &len);
    if (!p) return NULL;
    if (len != 10 || digits(p, 4) != 4 || p[4] != '-' || digits(p + 5, 2) != 2 || p[7] != '-' || digits(p + 8, 2) != 2)
        return wrong(at, "not a valid date");
    if (!datetime_ready()) return NULL;
    int year = (p[0] - '0') * 1000 + (p[1] - '0') * 100 + (p[2] - '0') * 10 + (p[3] - '0');
    PyObject *made = PyDate_FromDate(year, (p[5] - '0') * 10 + (p[6] - '0'), (p[8] - '0') * 10 + (p[9] - '0'));
    return made ? made : wrong_as_raised(at, "date");
}

static PyObject *read_timedelta(reader *r, size_t at) {
    size_t len = 0;
    const uint8_t *p = read_tagged(r, BYTES, at, "timedelta", &len);
    if (!p) return NULL;
    if (len != TIMEDELTA_LEN) return wrong(at, "not a valid timedelta: %zu bytes", len);
    uint32_t seconds = (uint32_t)load(p + 4, 4), us = (uint32_t)load(p + 8, 4);
    if (seconds >= 86400 || us >= US_PER_S) return wrong(at, "not a valid timedelta: out of range");
    if (!datetime_ready()) return NULL;
    PyObject *made = PyDelta_FromDSU((int32_t)(uint32_t)load(p, 4), (int)seconds, (int)us);
    return made ? made : wrong_as_raised(at, "timedelta");
}

static PyObject *new_container(enum kind kind, Py_ssize_t n) {
    switch (kind) {
    case LIST: return PyList_New(n);
    case TUPLE: return PyTuple_New(n);
    case DICT: return PyDict_New();
    case SET: return PySet_New(NULL);
    case FROZENSET: return PyFrozenSet_New(NULL);
    }
    Py_UNREACHABLE();
}

static bool grow_pending(reader *r) {
    int room = r->room * 4;
    pending *stack = PyMem_Malloc((size_t)room * sizeof *stack);
    if (!stack) return PyErr_NoMemory(), false;
    memcpy(stack, r->stack, (size_t)r->depth * sizeof *stack);
    if (r->stack != r->first) PyMem_Free(r->stack);
    r->stack = stack;
    r->room = room;
    return true;
}

/* Opens a container of `n` items or pairs. NULL without an exception: its items come first. */
static PyObject *open_container(reader *r, enum kind kind, uint64_t n, size_t at) {
    bool keyed = in_key(r);
    int key_depth = keyed ? r->stack[r->depth - 1].key_depth + 1 : 0;
    if (keyed && kind != TUPLE && kind != FROZENSET) return wrong(at, "a list, dict or set in a key");
    if (key_depth > KEY_DEPTH_MAX) return wrong(at, "a key deeper than %d", KEY_DEPTH_MAX);
    if (r->depth == VALUE_DEPTH_MAX) return wrong(at, "deeper than %d containers", VALUE_DEPTH_MAX);
    size_t left = r->len - r->pos, per = kind == DICT ? 2 : 1;
    size_t free = left > r->owed ? left - r->owed : 0;
    if (n > free / per) return wrong(at, "%llu items announced, %zu bytes left for them", (unsigned long long)n, free);
    if (kind == SET || kind == FROZENSET) r->items += SET_ITEMS - 1;
    if (n * per + r->owed + r->items > VALUE_ITEMS_MAX) return wrong(at, "more than %d items", VALUE_ITEMS_MAX);
    if (n > 0 && r->depth == r->room && !grow_pending(r)) return NULL;
    PyObject *made = new_container(kind, (Py_ssize_t)n);
    if (!made || n == 0) return made;
    r->owed += (size_t)n * per;
    r->stack[r->depth++] = (pending){ .kind = kind, .in_key = keyed, .key_depth = (uint8_t)key_depth, .n = (Py_ssize_t)n,
                                      .item = r->pos, .object = made };
    return NULL;
}

static PyObject *open_tagged(reader *r, enum kind kind, size_t at) {
    head h;
    if (!read_head(r, &h)) return NULL;
    if (h.major != ARRAY) return wrong(at, "not a valid tuple or set: no array");
    return open_container(r, kind, h.n, at);
}

static PyObject *read_tag(reader *r, uint64_t tag, size_t at) {
    switch (tag) {
    case TAG_BIG: return read_big(r, false, at);
    case TAG_BIG_NEGATIVE: return read_big(r, true, at);
    case TAG_TUPLE: return open_tagged(r, TUPLE, at);
    case TAG_SET: return open_tagged(r, SET, at);
    case TAG_FROZENSET: return open_tagged(r, FROZENSET, at);
    case TAG_FRACTION: return read_fraction(r, at);
    case TAG_UUID: return read_uuid(r, at);
    case TAG_DATE: return read_date(r, at);
    case TAG_COMPLEX: return read_complex(r, at);
    case TAG_TIME: return read_time(r, at);
    case TAG_TIMEDELTA: return read_timedelta(r, at);
    case TAG_DATETIME: return read_datetime(r, at);
    case TAG_SURROGATES: return read_surrogates(r, at);
    case TAG_DECIMAL: return read_decimal(r, at);
    default: return wrong(at, "unknown tag %llu", (unsigned long long)tag);
    }
}

static PyObject *read_simple(const head *h, size_t at) {
    if (h->info == 27) return PyFloat_FromDouble(double_of(h->n));
    if (h->info == (NULL_BYTE & 31)) return Py_NewRef(Py_None);
    if (h->info == (TRUE_BYTE & 31)) return Py_NewRef(Py_True);
    if (h->info == (FALSE_BYTE & 31)) return Py_NewRef(Py_False);
    return wrong(at, "unknown simple value or float of another size");
}

/* One item. NULL without an exception: a container was opened. */
static inline PyObject *read_item(reader *r) {
    size_t at = r->pos;
    head h;
    if (!read_head(r, &h)) return NULL;
    const pending *in = r->depth > 0 ? &r->stack[r->depth - 1] : NULL;
    if (in) r->owed--;
    if (++r->items + r->owed > VALUE_ITEMS_MAX) return wrong(at, "more than %d items", VALUE_ITEMS_MAX);
    const uint8_t *p;
    switch (h.major) {
    case UINT: return PyLong_FromUnsignedLongLong(h.n);
    case NEGATIVE: r->pos = at; return read_int(r, at, "int");
    case BYTES:
        p = read_span(r, at, h.n);
        return p ? PyBytes_FromStringAndSize((const char *)p, (Py_ssize_t)h.n) : NULL;
    case TEXT:
        p = read_span(r, at, h.n);
        if (!p) return NULL;
        return in && in->kind == DICT && !in->key ? key_of(r, p, (size_t)h.n, at) : text_of(p, (size_t)h.n, at);
    case ARRAY: return open_container(r, LIST, h.n, at);
    case MAP: return open_container(r, DICT, h.n, at);
    case TAG: return read_tag(r, h.n, at);
    case SIMPLE: return read_simple(&h, at);
    }
    Py_UNREACHABLE();
}

/* Starts to guard a container, with the keys that it has. */
static int start_guard(pending *p) {
    p->guard = key_guard_new(p->kind != DICT, (size_t)p->n);
    if (!p->guard) return -1;
    if (p->kind != DICT) return 1;
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    int ok = 1;
    while (ok > 0 && PyDict_Next(p->object, &pos, &key, &value)) ok = key_guard_add(p->guard, key, 0);
    return ok;
}

/* Before `key` goes into a dict or set. Text alone cannot be made to collide: its hash is secret. */
static bool check_key(reader *r, pending *p, PyObject *key) {
    if (p->n <= UNGUARDED_KEYS || (!p->guard && p->kind == DICT && PyUnicode_CheckExact(key))) return true;
    int ok = p->guard ? 1 : start_guard(p);
    if (ok > 0) ok = key_guard_add(p->guard, key, r->pos - p->item);
    if (ok > 0) return true;
    if (ok == 0) wrong(p->item, "keys made to collide");
    else wrong_as_raised(p->item, "key");
    return false;
}

static bool deliver_to_set(reader *r, pending *p, PyObject *v) {
    bool ok = check_key(r, p, v);
    if (ok && PySet_Add(p->object, v) < 0) ok = (wrong_as_raised(p->item, "key"), false);
    if (ok && PySet_GET_SIZE(p->object) != p->i + 1) ok = (wrong(p->item, "an item twice in a set"), false);
    Py_DECREF(v);
    return ok;
}

static bool deliver_to_dict(reader *r, pending *p, PyObject *v) {
    if (!p->key) {
        p->key = v;
        return check_key(r, p, v);
    }
    PyObject *key = p->key;
    p->key = NULL;
    bool ok = true;
    if (PyDict_SetItem(p->object, key, v) < 0) ok = (wrong_as_raised(p->item, "key"), false);
    if (ok && PyDict_GET_SIZE(p->object) != p->i + 1) ok = (wrong(p->item, "a key twice in a dict"), false);
    Py_DECREF(key);
    Py_DECREF(v);
    return ok;
}

/* Puts an item into the innermost container; takes the reference. */
static inline bool deliver(reader *r, PyObject *v) {
    pending *p = &r->stack[r->depth - 1];
    bool ok = true, was_key = p->kind == DICT && !p->key;
    if (p->kind == LIST) PyList_SET_ITEM(p->object, p->i, v);
    else if (p->kind == TUPLE) PyTuple_SET_ITEM(p->object, p->i, v);
    else if (p->kind == DICT) ok = deliver_to_dict(r, p, v);
    else ok = deliver_to_set(r, p, v);
    if (!was_key) {
        p->i++;
        p->item = r->pos;
    }
    return ok;
}

static void close_container(reader *r) {
    pending *p = &r->stack[--r->depth];
    key_guard_free(p->guard);
}

static PyObject *read_all(reader *r) {
    for (;;) {
        PyObject *v = read_item(r);
        if (!v && PyErr_Occurred()) return NULL;
        if (!v) continue;
        for (;;) {
            if (r->depth == 0) return v;
            if (!deliver(r, v)) return NULL;
            const pending *p = &r->stack[r->depth - 1];
            if (p->i < p->n) break;
            v = p->object;
            close_container(r);
        }
    }
}

PyObject *value_decode(const void *bytes, size_t len) {
    if (len > PY_SSIZE_T_MAX) return wrong(0, "too many bytes");
    reader r;
    r.bytes = bytes;
    r.pos = 0;
    r.len = len;
    r.owed = 0;
    r.items = 0;
    r.fraction_work = 0;
    r.stack = r.first;
    r.depth = 0;
    r.room = INLINE_DEPTH;
    memset(r.class, 0, sizeof r.class);
    r.cached = 0;

    PyObject *v = read_all(&r);
    if (v && r.pos != len) {
        Py_CLEAR(v);
        wrong(r.pos, "%zu bytes too many", len - r.pos);
    }
    while (r.depth > 0) {
        close_container(&r);
        Py_DECREF(r.stack[r.depth].object);
        Py_XDECREF(r.stack[r.depth].key);
    }
    if (r.stack != r.first) PyMem_Free(r.stack);
    for (int c = 0; c < CLASSES; c++) Py_XDECREF(r.class[c]);
    for (int k = 0; k < CACHED_KEYS && r.cached >> k; k++)
        if (r.cached >> k & 1) Py_DECREF(r.cache[k]);
    return v;
}
