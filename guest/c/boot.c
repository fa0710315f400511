/* See boot.h. */
#include "boot.h"

#include "core.h"
#include "module.h"

#include <string.h>
#include <unistd.h>

#define STDLIB       L"/lib/python3." WIDE(PY_MINOR_VERSION)
#define WIDE(x)      WIDE_TEXT(x)
#define WIDE_TEXT(x) L## #x

/* Free memory left in the heap. */
enum { HEADROOM = 4 << 20 };
/* Below this, nothing of the guest's stack is in use while boot_settle() runs. */
enum { STACK_SLACK = 16 << 10 };

static void post_failure(const char *what, const char *why) {
    char text[1024];
    int len = snprintf(text, sizeof text, "%s: %s", what, why ? why : "no reason given");
    if (len > (int)sizeof text - 1) len = sizeof text - 1;
    module_post(AGENT_POST_FAILURE, text, (size_t)(len < 0 ? 0 : len));
}

void boot_failed(const char *what) {
    PyObject *exc = PyErr_GetRaisedException();
    PyObject *text = exc ? PyObject_Repr(exc) : NULL;
    const char *why = text ? PyUnicode_AsUTF8(text) : NULL;
    post_failure(what, why);
    Py_XDECREF(text);
    Py_XDECREF(exc);
    PyErr_Clear();
}

static PyStatus preconfigure(void) {
    PyPreConfig pre;
    PyPreConfig_InitIsolatedConfig(&pre);
    pre.utf8_mode = 1;
    return Py_PreInitialize(&pre);
}

/* Every path is given, so nothing is searched for on disk. */
static PyStatus configure(PyConfig *config) {
    const struct {
        wchar_t **field;
        const wchar_t *value;
    } strings[] = {
        { &config->home, L"/" },
        { &config->prefix, L"/" },
        { &config->exec_prefix, L"/" },
        { &config->base_prefix, L"/" },
        { &config->base_exec_prefix, L"/" },
        { &config->executable, L"" },
        { &config->base_executable, L"" },
        { &config->program_name, L"" },
        { &config->stdlib_dir, STDLIB },
        { &config->stdio_encoding, L"utf-8" },
        { &config->stdio_errors, L"strict" },
    };
    static const wchar_t *const paths[] = { L"", STDLIB, STDLIB L"/site-packages" };
    PyStatus status = PyStatus_Ok();
    for (size_t i = 0; i < sizeof strings / sizeof *strings && !PyStatus_Exception(status); i++)
        status = PyConfig_SetString(config, strings[i].field, strings[i].value);
    config->module_search_paths_set = 1;
    for (size_t i = 0; i < sizeof paths / sizeof *paths && !PyStatus_Exception(status); i++)
        status = PyWideStringList_Append(&config->module_search_paths, paths[i]);
    /* Not "isolated" in sys.flags: user code should see an ordinary interpreter. What isolation is
     * for (environment, user's site, signals) is switched off one by one. */
    config->isolated = 0;
    config->safe_path = 0;
    config->use_environment = 0;
    config->user_site_directory = 0;
    config->site_import = 0;
    config->install_signal_handlers = 0;
    config->write_bytecode = 0;
    config->pathconfig_warnings = 0;
    config->parse_argv = 0;
    return status;
}

int boot_python(void) {
    PyConfig config;
    PyStatus status = preconfigure();
    if (PyStatus_Exception(status)) {
        post_failure("preconfiguring Python", status.err_msg);
        return -1;
    }
    PyImport_AppendInittab("_brumate", module_init);
    PyConfig_InitIsolatedConfig(&config);
    status = configure(&config);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) {
        post_failure("starting Python", status.err_msg);
        return -1;
    }
    /* The working folder of user code; without one the root will do. */
    if (chdir("/data") < 0) (void)chdir("/");
    return 0;
}

/* The stack lies at the bottom of memory, growing down to address 0. */
static void stack_clear(void) {
    char here;
    uintptr_t top = (uintptr_t)&here;
    if (top > STACK_SLACK + 1024) memset((void *)1024, 0, top - STACK_SLACK - 1024);
}

/* Uses up the free chunks of the C heap that lie below `bound`. What they held is cleared. */
static void heap_pack(const char *bound) {
    for (size_t size = (size_t)1 << 20; size >= 16; size -= size / 4 + 8) {
        char *chunk = malloc(size);
        while (chunk && chunk < bound) {
            memset(chunk, 0, size);
            chunk = malloc(size);
        }
        free(chunk);
    }
}

void boot_settle(void) {
    PyGC_Collect();
    core_immortalise();
    PyObject *gc = PyImport_ImportModule("gc");
    PyObject *done = gc ? PyObject_CallMethod(gc, "freeze", NULL) : NULL;
    Py_XDECREF(done);
    Py_XDECREF(gc);
    PyErr_Clear();
    /* From here on no memory is taken but in the order of addresses, behind what is alive. */
    char *room = calloc(1, HEADROOM);
    if (room) {
        heap_pack(room);
        free(room);
    }
    core_pools_pack();
    stack_clear();
}
