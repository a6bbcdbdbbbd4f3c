/* The data files of an append, straight from the JSON of the wire to what a manifest has of them.
 *
 * Read is only what `firn.model.intent.encode_intent` spells, member by member in its order, and of that only what most
 * files have. Whatever else comes is no error here: the answer is None, and firn.storage.wire_files, in Python, reads it
 * and says what is wrong. So this need not know every rule, but what it accepts must be right, to the byte: tests
 * compare the two.
 *
 * Texts are read between two pointers and never beyond; nothing is kept between calls.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <stdint.h>
#include <string.h>

typedef struct {
    const unsigned char *at;
    const unsigned char *end;
} Text;

typedef struct {
    const unsigned char *start;
    Py_ssize_t size;
} Span;

/* The members of a data file that are read here, in the order in which they are spelled. */
enum {
    FILE_PATH,
    FILE_FORMAT,
    SPEC_ID,
    PARTITION,
    RECORD_COUNT,
    FILE_SIZE,
    COLUMN_SIZES,
    VALUE_COUNTS,
    NULL_VALUE_COUNTS,
    NAN_VALUE_COUNTS,
    LOWER_BOUNDS,
    UPPER_BOUNDS,
    SPLIT_OFFSETS,
    SORT_ORDER_ID,
    ENCODED,
    MEMBERS
};

/* The same in the order of their names, in which the digest is taken. */
static const int SORTED[MEMBERS] = {
    COLUMN_SIZES, ENCODED,   FILE_FORMAT,  FILE_PATH,     FILE_SIZE, LOWER_BOUNDS,  NAN_VALUE_COUNTS, NULL_VALUE_COUNTS,
    PARTITION,    RECORD_COUNT, SORT_ORDER_ID, SPEC_ID, SPLIT_OFFSETS, UPPER_BOUNDS, VALUE_COUNTS,
};

#define PATH_MAX_BYTES 4096
#define BOUND_SPELLED_MAX (2 * 255 + 1) /* 255 bytes, and the quote behind them */
#define ID_MAX 0x7fffffffLL
#define COLUMNS_MAX 4096
#define PARTITION_MAX 64
#define VARINT_MAX_BYTES 10
#define DIGITS_MAX 19 /* so many fit in 64 bits without a sign, whatever they are */

/* ------------------------------------------------------------------------------------------------------------------
 * Spelling */

static int literal(Text *text, const char *expected, size_t size)
{
    if ((size_t)(text->end - text->at) < size || memcmp(text->at, expected, size) != 0)
        return 0;
    text->at += size;
    return 1;
}

#define LITERAL(text, expected) literal(text, expected, sizeof(expected) - 1)

static int sign(Text *text, unsigned char expected)
{
    if (text->at >= text->end || *text->at != expected)
        return 0;
    text->at++;
    return 1;
}

/* A number that is not negative, in its shortest spelling. */
static int natural(Text *text, int64_t *value)
{
    const unsigned char *at = text->at, *end = text->end;
    uint64_t number = 0;
    if (at >= end || *at < '0' || *at > '9')
        return 0;
    if (*at == '0') {
        text->at = at + 1;
        *value = 0;
        return 1; /* a digit behind it fits nothing that may follow */
    }
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        number = number * 10 + (unsigned)(*at - '0');
    if (at - text->at > DIGITS_MAX || number > INT64_MAX)
        return 0;
    text->at = at;
    *value = (int64_t)number;
    return 1;
}

/* A string of printable ASCII in which nothing is escaped; the span is what stands between its quotes. */
static int plain_string(Text *text, Span *span)
{
    const unsigned char *at = text->at, *end = text->end;
    if (at >= end || *at != '"')
        return 0;
    span->start = ++at;
    while (at < end && *at >= 0x20 && *at < 0x7f && *at != '"' && *at != '\\')
        at++;
    if (at >= end || *at != '"')
        return 0;
    span->size = at - span->start;
    text->at = at + 1;
    return 1;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Avro */

/* A long that is not negative: doubled by zigzag, then in groups of seven bits. */
static unsigned char *put_long(unsigned char *out, int64_t value)
{
    uint64_t rest = (uint64_t)value << 1;
    while (rest >= 0x80) {
        *out++ = (unsigned char)(rest | 0x80);
        rest >>= 7;
    }
    *out++ = (unsigned char)rest;
    return out;
}

/* What a hexadecimal digit says, with a bit that says that it is one. */
#define DIGIT 0x10
static const unsigned char HALVES[256] = {
    ['0'] = DIGIT,      ['1'] = DIGIT | 1,  ['2'] = DIGIT | 2,  ['3'] = DIGIT | 3,  ['4'] = DIGIT | 4,
    ['5'] = DIGIT | 5,  ['6'] = DIGIT | 6,  ['7'] = DIGIT | 7,  ['8'] = DIGIT | 8,  ['9'] = DIGIT | 9,
    ['a'] = DIGIT | 10, ['b'] = DIGIT | 11, ['c'] = DIGIT | 12, ['d'] = DIGIT | 13, ['e'] = DIGIT | 14,
    ['f'] = DIGIT | 15, ['A'] = DIGIT | 10, ['B'] = DIGIT | 11, ['C'] = DIGIT | 12, ['D'] = DIGIT | 13,
    ['E'] = DIGIT | 14, ['F'] = DIGIT | 15,
};

/* A bound in hexadecimal, as Avro has bytes. Where it ends, NULL for one that is not like most. */
static unsigned char *bound(Text *text, unsigned char *out)
{
    unsigned digits = DIGIT;
    if (!sign(text, '"'))
        return NULL;
    const unsigned char *hex = text->at;
    size_t left = (size_t)(text->end - hex);
    const unsigned char *quote = memchr(hex, '"', left < BOUND_SPELLED_MAX ? left : BOUND_SPELLED_MAX);
    if (quote == NULL || (quote - hex) % 2)
        return NULL;
    out = put_long(out, (quote - hex) / 2);
    for (; hex < quote; hex += 2) {
        unsigned high = HALVES[hex[0]], low = HALVES[hex[1]];
        digits &= high & low;
        *out++ = (unsigned char)(high << 4 | (low & 15));
    }
    text->at = quote + 1;
    return digits ? out : NULL;
}

/* The ids of a map's columns: rising, which makes them different. Their number, 0 where that is not so. */
static Py_ssize_t columns(Text *text, int32_t *ids)
{
    Py_ssize_t count = 0;
    int64_t before = -1, id;
    if (!LITERAL(text, "{\"keys\":["))
        return 0;
    do {
        if (count == COLUMNS_MAX || !natural(text, &id) || id > ID_MAX || id <= before)
            return 0;
        ids[count++] = (int32_t)id;
        before = id;
    } while (sign(text, ','));
    return LITERAL(text, "],\"values\":[") ? count : 0;
}

/* A map of counts, or of bounds in hexadecimal, as Avro has it. Where it ends, NULL for one that is not like most. */
static unsigned char *map(Text *text, unsigned char *out, int bounds)
{
    int32_t ids[COLUMNS_MAX];
    Py_ssize_t count = columns(text, ids);
    if (count == 0)
        return NULL;
    *out++ = 2;
    out = put_long(out, count);
    for (Py_ssize_t n = 0; n < count; n++) {
        if (n > 0 && !sign(text, ','))
            return NULL;
        out = put_long(out, ids[n]);
        if (bounds) {
            out = bound(text, out);
            if (out == NULL)
                return NULL;
        } else {
            int64_t value;
            if (!natural(text, &value))
                return NULL;
            out = put_long(out, value);
        }
    }
    *out++ = 0;
    return LITERAL(text, "]}") ? out : NULL;
}

static unsigned char *offsets(Text *text, unsigned char *out)
{
    Py_ssize_t count = 1;
    if (!sign(text, '['))
        return NULL;
    for (const unsigned char *at = text->at; at < text->end && *at != ']'; at++)
        count += *at == ',';
    *out++ = 2;
    out = put_long(out, count);
    do {
        int64_t value;
        if (!natural(text, &value))
            return NULL;
        out = put_long(out, value);
    } while (sign(text, ','));
    *out++ = 0;
    return sign(text, ']') ? out : NULL;
}

/* ------------------------------------------------------------------------------------------------------------------
 * A file */

static const char *const NAMES[MEMBERS] = {
    "\"file-path\":",          "\"file-format\":",     "\"spec-id\":",           "\"partition\":",
    "\"record-count\":",       "\"file-size-in-bytes\":", "\"column-sizes\":",   "\"value-counts\":",
    "\"null-value-counts\":",  "\"nan-value-counts\":", "\"lower-bounds\":",     "\"upper-bounds\":",
    "\"split-offsets\":",      "\"sort-order-id\":",    "\"encoded\":",
};

static const unsigned char NAME_SIZES[MEMBERS] = {12, 14, 10, 12, 15, 21, 15, 15, 20, 19, 15, 15, 16, 16, 10};

typedef struct {
    Span members[MEMBERS]; /* each with its name; size 0 for one that is not there */
    Span path;
    Span format;
    int64_t spec_id, record_count, file_size;
    PyObject *partition;
    PyObject *encoded;
} File;

/* Whether the next member is this one: then the text is behind its name. */
static int member(Text *text, File *file, int which, int *first)
{
    Text ahead = *text;
    if (!*first && !sign(&ahead, ','))
        return 0;
    if (!literal(&ahead, NAMES[which], NAME_SIZES[which]))
        return 0;
    file->members[which].start = ahead.at - NAME_SIZES[which];
    *first = 0;
    *text = ahead;
    return 1;
}

static void ends(Text *text, File *file, int which)
{
    file->members[which].size = text->at - file->members[which].start;
}

static PyObject *partition_value(Text *text)
{
    Span span;
    if (text->at >= text->end)
        return NULL;
    switch (*text->at) {
    case '"':
        return plain_string(text, &span) ? PyUnicode_FromStringAndSize((const char *)span.start, span.size) : NULL;
    case 'n':
        return LITERAL(text, "null") ? Py_NewRef(Py_None) : NULL;
    case 't':
        return LITERAL(text, "true") ? PyBool_FromLong(1) : NULL;
    case 'f':
        return LITERAL(text, "false") ? PyBool_FromLong(0) : NULL;
    default: {
        int negative = sign(text, '-');
        int64_t value;
        if (!natural(text, &value) || (negative && value == 0))
            return NULL;
        return PyLong_FromLongLong(negative ? -value : value);
    }
    }
}

static PyObject *partition(Text *text)
{
    PyObject *values[PARTITION_MAX], *tuple = NULL;
    Py_ssize_t count = 0;
    int more = sign(text, '[');
    while (more && count < PARTITION_MAX && (values[count] = partition_value(text)) != NULL) {
        count++;
        more = sign(text, ',');
    }
    if (count > 0 && !more && sign(text, ']'))
        tuple = PyTuple_New(count);
    for (Py_ssize_t n = 0; n < count; n++) {
        if (tuple != NULL)
            PyTuple_SetItem(tuple, n, values[n]);
        else
            Py_DECREF(values[n]);
    }
    return tuple;
}

/* The metrics, from column sizes to sort order, as the fields 108 to 140 of Avro's record. */
static unsigned char *metrics(Text *text, File *file, unsigned char *out)
{
    int first = 0; /* other members stand before them */
    for (int which = COLUMN_SIZES; which <= UPPER_BOUNDS; which++) {
        if (!member(text, file, which, &first)) {
            *out++ = 0;
            continue;
        }
        out = map(text, out, which >= LOWER_BOUNDS);
        if (out == NULL)
            return NULL;
        ends(text, file, which);
    }
    *out++ = 0; /* key metadata */
    if (member(text, file, SPLIT_OFFSETS, &first)) {
        out = offsets(text, out);
        if (out == NULL)
            return NULL;
        ends(text, file, SPLIT_OFFSETS);
    } else {
        *out++ = 0;
    }
    *out++ = 0; /* equality ids */
    if (member(text, file, SORT_ORDER_ID, &first)) {
        int64_t value;
        if (!natural(text, &value) || value > ID_MAX)
            return NULL;
        *out++ = 2;
        out = put_long(out, value);
        ends(text, file, SORT_ORDER_ID);
    } else {
        *out++ = 0;
    }
    return out;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Metrics that came encoded */

/* A number that is not negative, in its shortest form: what is longer than need be, not all readers take. */
static int varint(Text *bytes, int64_t most, int64_t *value)
{
    uint64_t raw = 0;
    if (bytes->at < bytes->end && *bytes->at < 0x80) { /* nearly always, of ids and of sizes */
        raw = *bytes->at++;
        *value = (int64_t)(raw >> 1);
        return !(raw & 1) && *value <= most;
    }
    for (int n = 0; n < VARINT_MAX_BYTES && bytes->at < bytes->end; n++) {
        unsigned char byte = *bytes->at++;
        if (n == VARINT_MAX_BYTES - 1 && byte > 1)
            return 0; /* more than 64 bits */
        raw |= (uint64_t)(byte & 0x7f) << 7 * n;
        if (byte < 0x80) {
            if (raw & 1 || (byte == 0 && n > 0))
                return 0; /* negative, or not the shortest */
            *value = (int64_t)(raw >> 1);
            return *value <= most;
        }
    }
    return 0;
}

/* Whether an optional value is there: 1 or 0, -1 where that is said in another way. */
static int some(Text *bytes)
{
    if (sign(bytes, 0))
        return 0;
    return sign(bytes, 2) ? 1 : -1;
}

static int skip_bytes(Text *bytes, int64_t most)
{
    int64_t size;
    if (!varint(bytes, most, &size) || size > bytes->end - bytes->at)
        return 0;
    bytes->at += size;
    return 1;
}

/* An optional array in one block, or empty. Its ids rise: of one that comes twice, Python may keep only the last. */
static int skip_list(Text *bytes, int ids, int counts, int bounds)
{
    int64_t count, value, id, last_id = -1;
    int there = some(bytes);
    if (there < 1)
        return there == 0;
    if (!varint(bytes, ID_MAX, &count))
        return 0;
    if (count == 0)
        return 1;
    while (count-- > 0) {
        if (ids) {
            if (!varint(bytes, ID_MAX, &id) || id <= last_id)
                return 0;
            last_id = id;
        }
        if (counts && !varint(bytes, INT64_MAX, &value))
            return 0;
        if (bounds && !skip_bytes(bytes, 64 * 1024))
            return 0;
    }
    return sign(bytes, 0);
}

/* Whether these are metrics as a manifest has them, laid out like most. */
static int are_metrics(const unsigned char *start, Py_ssize_t size)
{
    Text bytes = {start, start + size};
    int64_t value;
    for (int n = 0; n < 4; n++)
        if (!skip_list(&bytes, 1, 1, 0))
            return 0;
    for (int n = 0; n < 2; n++)
        if (!skip_list(&bytes, 1, 0, 1))
            return 0;
    int there = some(&bytes); /* key metadata */
    if (there < 0 || (there && !skip_bytes(&bytes, ID_MAX)))
        return 0;
    if (!skip_list(&bytes, 0, 1, 0) || !sign(&bytes, 0)) /* split offsets; no equality ids */
        return 0;
    there = some(&bytes); /* sort order */
    if (there < 0 || (there && !varint(&bytes, ID_MAX, &value)))
        return 0;
    return bytes.at == bytes.end;
}

/* What a letter of base64 says, with a bit that says that it is one. */
#define SIX 0x40
static const unsigned char SEXTETS[256] = {
    ['A'] = SIX,     ['B'] = SIX | 1, ['C'] = SIX | 2, ['D'] = SIX | 3, ['E'] = SIX | 4, ['F'] = SIX | 5,
    ['G'] = SIX | 6, ['H'] = SIX | 7, ['I'] = SIX | 8, ['J'] = SIX | 9, ['K'] = SIX | 10, ['L'] = SIX | 11,
    ['M'] = SIX | 12, ['N'] = SIX | 13, ['O'] = SIX | 14, ['P'] = SIX | 15, ['Q'] = SIX | 16, ['R'] = SIX | 17,
    ['S'] = SIX | 18, ['T'] = SIX | 19, ['U'] = SIX | 20, ['V'] = SIX | 21, ['W'] = SIX | 22, ['X'] = SIX | 23,
    ['Y'] = SIX | 24, ['Z'] = SIX | 25, ['a'] = SIX | 26, ['b'] = SIX | 27, ['c'] = SIX | 28, ['d'] = SIX | 29,
    ['e'] = SIX | 30, ['f'] = SIX | 31, ['g'] = SIX | 32, ['h'] = SIX | 33, ['i'] = SIX | 34, ['j'] = SIX | 35,
    ['k'] = SIX | 36, ['l'] = SIX | 37, ['m'] = SIX | 38, ['n'] = SIX | 39, ['o'] = SIX | 40, ['p'] = SIX | 41,
    ['q'] = SIX | 42, ['r'] = SIX | 43, ['s'] = SIX | 44, ['t'] = SIX | 45, ['u'] = SIX | 46, ['v'] = SIX | 47,
    ['w'] = SIX | 48, ['x'] = SIX | 49, ['y'] = SIX | 50, ['z'] = SIX | 51, ['0'] = SIX | 52, ['1'] = SIX | 53,
    ['2'] = SIX | 54, ['3'] = SIX | 55, ['4'] = SIX | 56, ['5'] = SIX | 57, ['6'] = SIX | 58, ['7'] = SIX | 59,
    ['8'] = SIX | 60, ['9'] = SIX | 61, ['+'] = SIX | 62, ['/'] = SIX | 63,
};

/* Three bytes from four letters; `letters` loses its bit when one of them is none. */
static uint32_t three_bytes(unsigned a, unsigned b, unsigned c, unsigned d, unsigned *letters)
{
    *letters &= a & b & c & d;
    return (uint32_t)((a & 63) << 18 | (b & 63) << 12 | (c & 63) << 6 | (d & 63));
}

/* Base64 with all its padding and no bits to spare, which is its only spelling. Where it ends, NULL for another. */
static unsigned char *decode_base64(Span text, unsigned char *out)
{
    if (text.size == 0 || text.size % 4)
        return NULL;
    const unsigned char *at = text.start, *last = at + text.size - 4;
    unsigned letters = SIX;
    for (; at < last; at += 4) {
        uint32_t bits = three_bytes(SEXTETS[at[0]], SEXTETS[at[1]], SEXTETS[at[2]], SEXTETS[at[3]], &letters);
        *out++ = (unsigned char)(bits >> 16);
        *out++ = (unsigned char)(bits >> 8);
        *out++ = (unsigned char)bits;
    }
    int size = last[3] != '=' ? 3 : last[2] != '=' ? 2 : 1;
    unsigned third = size > 1 ? SEXTETS[last[2]] : SIX, fourth = size > 2 ? SEXTETS[last[3]] : SIX;
    uint32_t bits = three_bytes(SEXTETS[last[0]], SEXTETS[last[1]], third, fourth, &letters);
    if (bits & (0xffffffu >> 8 * size))
        return NULL;
    for (int n = 0; n < size; n++)
        *out++ = (unsigned char)(bits >> (16 - 8 * n));
    return letters ? out : NULL;
}

/* ------------------------------------------------------------------------------------------------------------------
 * The list of files */

static int is_format(Span format)
{
    return (format.size == 7 && memcmp(format.start, "parquet", 7) == 0) ||
           (format.size == 3 && (memcmp(format.start, "orc", 3) == 0)) ||
           (format.size == 4 && memcmp(format.start, "avro", 4) == 0);
}

static int number_member(Text *text, File *file, int which, int *first, int64_t most, int64_t *value)
{
    if (!member(text, file, which, first) || !natural(text, value) || *value > most)
        return 0;
    ends(text, file, which);
    return 1;
}

/* One file. `out` is room for its metrics. Its objects are the caller's to release. */
static int read_file(Text *text, File *file, unsigned char *out)
{
    int first = 1;
    if (!sign(text, '{') || !member(text, file, FILE_PATH, &first) || !plain_string(text, &file->path))
        return 0;
    if (file->path.size == 0 || file->path.size > PATH_MAX_BYTES)
        return 0;
    ends(text, file, FILE_PATH);
    if (!member(text, file, FILE_FORMAT, &first) || !plain_string(text, &file->format) || !is_format(file->format))
        return 0;
    ends(text, file, FILE_FORMAT);
    if (!number_member(text, file, SPEC_ID, &first, ID_MAX, &file->spec_id))
        return 0;
    if (member(text, file, PARTITION, &first)) {
        file->partition = partition(text);
        if (file->partition == NULL)
            return 0;
        ends(text, file, PARTITION);
    } else {
        file->partition = PyTuple_New(0);
        if (file->partition == NULL)
            return 0;
    }
    if (!number_member(text, file, RECORD_COUNT, &first, INT64_MAX, &file->record_count) ||
        !number_member(text, file, FILE_SIZE, &first, INT64_MAX, &file->file_size))
        return 0;
    Text before = *text;
    unsigned char *end;
    if (member(text, file, ENCODED, &first)) {
        Span base64;
        if (!plain_string(text, &base64))
            return 0;
        end = decode_base64(base64, out);
        if (end == NULL || !are_metrics(out, end - out))
            return 0;
        ends(text, file, ENCODED);
    } else {
        *text = before;
        end = metrics(text, file, out);
        if (end == NULL)
            return 0;
    }
    if (!sign(text, '}'))
        return 0;
    file->encoded = PyBytes_FromStringAndSize((const char *)out, end - out);
    return file->encoded != NULL;
}

/* The members in the order of their names, as the digest has them. */
static unsigned char *sorted(const File *file, unsigned char *out)
{
    const char *before = "{";
    for (int n = 0; n < MEMBERS; n++) {
        const Span *span = &file->members[SORTED[n]];
        if (span->size == 0)
            continue;
        *out++ = (unsigned char)*before;
        before = ",";
        memcpy(out, span->start, (size_t)span->size);
        out += span->size;
    }
    *out++ = '}';
    return out;
}

static PyObject *described(const File *file)
{
    return Py_BuildValue(
        "(s#s#LOLLO)", (const char *)file->path.start, file->path.size, (const char *)file->format.start,
        file->format.size, (long long)file->spec_id, file->partition, (long long)file->record_count,
        (long long)file->file_size, file->encoded);
}

/* Reads files until the list ends. `text` is behind its bracket; `canonical` and `out` have room for as much as it. */
static int read_list(Text *text, PyObject *files, unsigned char **canonical, unsigned char *out)
{
    *(*canonical)++ = '[';
    for (;;) {
        File file = {0};
        PyObject *described_file = NULL;
        int fits = read_file(text, &file, out);
        if (fits) {
            *canonical = sorted(&file, *canonical);
            described_file = described(&file);
        }
        Py_XDECREF(file.partition);
        Py_XDECREF(file.encoded);
        if (described_file == NULL)
            return 0;
        int failed = PyList_Append(files, described_file);
        Py_DECREF(described_file);
        if (failed)
            return 0;
        if (sign(text, ',')) {
            *(*canonical)++ = ',';
            continue;
        }
        *(*canonical)++ = ']';
        return sign(text, ']');
    }
}

PyDoc_STRVAR(read_doc, "read(payload, start, /)\n--\n\n"
    "The data files of the list in `payload` whose first file begins at `start`, behind the bracket.\n\n"
    "Returns where the list ends, its text with the members of each file sorted by name, and of each file its location,\n"
    "format, spec id, partition, rows, bytes and metrics (`ContentFile.encoded`). None where anything is not spelled as\n"
    "`encode_intent` spells it, is wrong, or is not like most.");

static PyObject *wire_files_read(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *payload;
    Py_ssize_t start, size;
    char *content;
    if (!PyArg_ParseTuple(args, "Sn:read", &payload, &start) ||
        PyBytes_AsStringAndSize(payload, &content, &size) < 0)
        return NULL;
    if (start < 0 || start > size) {
        PyErr_SetString(PyExc_ValueError, "start is outside the payload");
        return NULL;
    }
    Text text = {(const unsigned char *)content + start, (const unsigned char *)content + size};
    if (size - start > PY_SSIZE_T_MAX / 2)
        Py_RETURN_NONE; /* a little more is still a size */
    /* Nothing takes more bytes than the text it was read from: a number at most one for each digit; a bound one for two
     * digits, and as many as it has quotes for its size; what stands around a list, fewer than its name. Beyond that
     * there are a byte for each member that is not there, and brackets. */
    size_t room = (size_t)(size - start) + 2 * MEMBERS + 2 * VARINT_MAX_BYTES;
    unsigned char *canonical = PyMem_Malloc(room), *end = canonical; /* the list */
    unsigned char *out = PyMem_Malloc(room);                         /* the metrics of one file */
    PyObject *files = PyList_New(0), *answer = NULL;
    if (canonical == NULL || out == NULL)
        PyErr_NoMemory();
    else if (files != NULL && read_list(&text, files, &end, out))
        answer = Py_BuildValue(
            "(ny#O)", (Py_ssize_t)(text.at - (const unsigned char *)content), (const char *)canonical,
            (Py_ssize_t)(end - canonical), files);
    PyMem_Free(canonical);
    PyMem_Free(out);
    Py_XDECREF(files);
    if (answer == NULL && !PyErr_Occurred())
        Py_RETURN_NONE;
    return answer;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Whether bounds are values of their columns */

/* What a column's bounds look like: the first of two bytes that `forms` has for its id. The second is the parameter. */
enum {
    ANYTHING,
    ONE_OF_WIDTHS, /* bits of the parameter allow 1, 4, 8 and 16 bytes */
    EXACT_WIDTH,   /* as many bytes as the parameter */
    UTF8,
    DECIMAL,       /* two's complement, big-endian; the parameter is the precision */
};

static int is_utf8(const unsigned char *at, Py_ssize_t size)
{
    Py_ssize_t n = 0;
    while (n < size && at[n] < 0x80)
        n++;
    if (n == size)
        return 1;
    PyObject *text = PyUnicode_DecodeUTF8((const char *)at, size, "strict");
    if (text == NULL) {
        PyErr_Clear();
        return 0;
    }
    Py_DECREF(text);
    return 1;
}

static int is_decimal(const unsigned char *at, Py_ssize_t size, int precision)
{
    if (size < 1 || size > 8)
        return 0; /* more than 18 digits: Python looks at it */
    uint64_t value = at[0] & 0x80 ? UINT64_MAX : 0, limit = 1;
    for (Py_ssize_t n = 0; n < size; n++)
        value = value << 8 | at[n];
    if (precision > 18)
        return 1;
    for (int n = 0; n < precision; n++)
        limit *= 10;
    return (at[0] & 0x80 ? 0 - value : value) < limit;
}

static int is_bound(const unsigned char *at, Py_ssize_t size, int form, int parameter)
{
    switch (form) {
    case ANYTHING:
        return 1;
    case ONE_OF_WIDTHS:
        return (size == 1 && parameter & 1) || (size == 4 && parameter & 2) || (size == 8 && parameter & 4) ||
               (size == 16 && parameter & 8);
    case EXACT_WIDTH:
        return size == parameter;
    case UTF8:
        return is_utf8(at, size);
    case DECIMAL:
        return is_decimal(at, size, parameter);
    default:
        return 0;
    }
}

/* One map of the metrics, its columns in rising order. */
static int map_fits(Text *bytes, Span forms, int bounds)
{
    int64_t count, value, id, last_id = -1;
    int there = some(bytes);
    if (there < 1)
        return there == 0;
    if (!varint(bytes, ID_MAX, &count))
        return 0;
    if (count == 0)
        return 1;
    while (count-- > 0) {
        if (!varint(bytes, ID_MAX, &id) || id <= last_id || !varint(bytes, INT64_MAX, &value))
            return 0;
        last_id = id;
        if (!bounds)
            continue;
        if (value > bytes->end - bytes->at)
            return 0;
        if (id < forms.size / 2 &&
            !is_bound(bytes->at, (Py_ssize_t)value, forms.start[2 * id], forms.start[2 * id + 1]))
            return 0;
        bytes->at += value;
    }
    return sign(bytes, 0);
}

PyDoc_STRVAR(fits_doc, "fits(encoded, forms, /)\n--\n\n"
    "Whether the maps of these metrics (`ContentFile.encoded`) have each column once and bounds that are values of it.\n\n"
    "`forms` has two bytes for each field id from 0 on (`firn.storage.fitting_metrics`). False also where Python has to\n"
    "look closer.");

static PyObject *wire_files_fits(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *encoded, *forms;
    char *content, *of_ids;
    Py_ssize_t size, forms_size;
    if (!PyArg_ParseTuple(args, "SS:fits", &encoded, &forms) || PyBytes_AsStringAndSize(encoded, &content, &size) < 0 ||
        PyBytes_AsStringAndSize(forms, &of_ids, &forms_size) < 0)
        return NULL;
    Text bytes = {(const unsigned char *)content, (const unsigned char *)content + size};
    Span span = {(const unsigned char *)of_ids, forms_size};
    for (int n = 0; n < 6; n++)
        if (!map_fits(&bytes, span, n > 3))
            Py_RETURN_FALSE;
    Py_RETURN_TRUE;
}

static PyMethodDef methods[] = {
    {"read", wire_files_read, METH_VARARGS, read_doc},
    {"fits", wire_files_fits, METH_VARARGS, fits_doc},
    {NULL, NULL, 0, NULL},
};

/* To be raised with whatever changes in what is read or answered: firn takes no other, which an older build may be. */
#define INTERFACE 2

static int define(PyObject *module)
{
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, define}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "firn.storage.native.wire_files",
    .m_doc = "The data files of an append, from the JSON of the wire to what a manifest has of them; checks of these.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_wire_files(void)
{
    return PyModuleDef_Init(&definition);
}
