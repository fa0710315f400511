/* Threads that run guests for an event loop: the loop's thread submits a run and goes on; a worker
 * takes it to its next event, and rings the loop by an eventfd.
 *
 * Workers never touch Python. There are as many as there are guests that run (up to a ceiling);
 * those without work wait for some seconds, then end. A run that waits has no thread. */
#define _GNU_SOURCE
#include "native.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <structmember.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { WORKERS_MAX = 1024, IDLE_SECONDS = 5, STOP_SECONDS = 5 };
/* The answer of a host function often comes at once: to look out for it so long costs less than to
 * be woken. */
#define LOOK_OUT_NS 60000u

/* Where finished stretches are told: one for an event loop. */
typedef struct notifier_object {
    PyObject_HEAD
    int fd;
    unsigned long forks;
    pthread_mutex_t lock;
    session_object *done, **done_last; /* under lock; in the order in which they came */
} notifier_object;

static PyTypeObject *notifier_type;

/* ---- Workers ------------------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work;
static session_object *first, **last = &first; /* to be run, under lock */
static session_object *running;                /* under lock */
static unsigned threads, idle;
static atomic_uint waiting; /* in the list of `first`; changed under lock */
static bool stopping;

/* The last that a worker does with a job: from here on it is the loop's. */
static void tell(session_object *job) {
    notifier_object *n = job->notifier;
    static const uint64_t one = 1;
    pthread_mutex_lock(&n->lock);
    bool told = n->done != NULL; /* and not looked at yet: dispatch() goes on until there is none */
    job->next_job = NULL;
    *n->done_last = job;
    n->done_last = &job->next_job;
    atomic_store(&job->job_done, 1);
    native_wake(&job->job_done);
    while (!told && write(n->fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
    pthread_mutex_unlock(&n->lock);
}

static void look_out(void) {
    uint64_t until = native_clock() + LOOK_OUT_NS;
    while (atomic_load(&waiting) == 0 && native_clock() < until) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

/* The next job, or NULL after some seconds without one. Under lock. `soon`: there may be one at
 * once. */
static session_object *next_job(bool soon) {
    struct timespec until;
    idle++;
    if (soon) {
        pthread_mutex_unlock(&lock);
        look_out();
        pthread_mutex_lock(&lock);
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += IDLE_SECONDS;
    int waited = 0;
    while (!first && !stopping && waited == 0)
        waited = pthread_cond_timedwait(&work, &lock, &until);
    idle--;
    session_object *job = first;
    if (!job) return NULL;
    first = job->next_job;
    if (!first) last = &first;
    waiting--;
    job->next_running = running;
    if (running) running->prior_running = &job->next_running;
    job->prior_running = &running;
    running = job;
    return job;
}

static void *worker(void *unused) {
    (void)unused;
    bool called = false;
    pthread_mutex_lock(&lock);
    for (;;) {
        session_object *job = next_job(called);
        if (!job) break;
        pthread_mutex_unlock(&lock);
        job->job_status = run_guest(job, &job->job_error);
        pthread_mutex_lock(&lock);
        *job->prior_running = job->next_running;
        if (job->next_running) job->next_running->prior_running = job->prior_running;
        pthread_mutex_unlock(&lock);
        called = job->job_status == BRU_OK && job->run.event.kind == BRU_EVENT_CALL;
        tell(job);
        pthread_mutex_lock(&lock);
    }
    threads--;
    pthread_cond_broadcast(&work);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Signals are for Python's threads, but those that the engine needs. */
static bool add_worker(void) {
    static const int kept[] = { SIGINT,  SIGTERM, SIGHUP,   SIGQUIT, SIGCHLD, SIGALRM,
                                SIGUSR1, SIGUSR2, SIGWINCH, SIGPIPE, SIGTSTP, SIGCONT };
    sigset_t block, old;
    pthread_attr_t attributes;
    pthread_t thread;
    sigemptyset(&block);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) sigaddset(&block, kept[i]);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_BLOCK, &block, &old);
    bool made = pthread_create(&thread, &attributes, worker, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    return made;
}

/* False: there is no thread for it, and none will be. */
static bool enqueue(session_object *job) {
    pthread_mutex_lock(&lock);
    bool taken = !stopping;
    if (taken && waiting >= idle && threads < WORKERS_MAX) {
        bool added = add_worker();
        if (added) threads++;
        taken = added || threads > 0;
    }
    if (taken) {
        job->next_job = NULL;
        *last = job;
        last = &job->next_job;
        waiting++;
        pthread_cond_signal(&work);
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

static void prepare_work(void) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&work, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void after_fork(void) {
    pthread_mutex_unlock(&lock);
}

/* The threads are gone, and with them what they were running. */
static void in_child(void) {
    pthread_mutex_init(&lock, NULL);
    prepare_work();
    first = running = NULL;
    last = &first;
    threads = idle = waiting = 0;
    native_forks++;
}

/* ---- Jobs --------------------------------------------------------------------------------- */

static PyObject *job_submit(session_object *self, PyObject *notifier) {
    if (!PyObject_TypeCheck(notifier, notifier_type) || self->run.phase != RUN_OURS ||
        self->run.pending)
        return PyErr_BadArgument(), NULL;
    self->run.phase = RUN_GUEST;
    self->notifier = (notifier_object *)Py_NewRef(notifier);
    atomic_store(&self->job_done, 0);
    Py_INCREF(self);
    if (enqueue(self)) Py_RETURN_NONE;
    self->run.phase = RUN_OURS;
    Py_CLEAR(self->notifier);
    Py_DECREF(self);
    return native_raise_as("BrumateError", "there is no thread to run it on: the process ends, or "
                                           "the machine has no more threads");
}

/* The session is ours again. The reference that the job held is the caller's. */
static void job_take_back(session_object *self) {
    self->run.phase = RUN_OURS;
    self->run.pending = self->job_status == BRU_OK;
    self->next_job = NULL;
    Py_CLEAR(self->notifier);
}

/* Takes a job out of a notifier's list; NULL: the first. What was there, or NULL. */
static session_object *unlist(notifier_object *n, session_object *which) {
    pthread_mutex_lock(&n->lock);
    session_object **at = &n->done;
    while (which && *at && *at != which) at = &(*at)->next_job;
    session_object *job = *at;
    if (job) {
        *at = job->next_job;
        if (!*at) n->done_last = at;
    }
    pthread_mutex_unlock(&n->lock);
    return job;
}

static PyObject *job_kill(session_object *self, PyObject *unused) {
    (void)unused;
    if (self->session) bru_session_interrupt(self->session, BRU_INTERRUPT_HARD);
    Py_RETURN_NONE;
}

static PyObject *job_stop(session_object *self, PyObject *unused) {
    (void)unused;
    if (self->forks != native_forks) Py_RETURN_NONE;
    if (self->run.phase == RUN_GUEST && self->notifier) {
        uint64_t until = native_clock() + (uint64_t)STOP_SECONDS * 1000000000u;
        Py_BEGIN_ALLOW_THREADS
        bru_session_interrupt(self->session, BRU_INTERRUPT_HARD);
        while (!atomic_load(&self->job_done) && native_clock() < until)
            native_sleep(&self->job_done, 0, until);
        Py_END_ALLOW_THREADS
        if (!atomic_load(&self->job_done)) Py_RETURN_NONE;
        if (self->notifier && unlist(self->notifier, self)) {
            job_take_back(self);
            Py_DECREF(self);
        }
    }
    if (self->run.phase == RUN_OURS) run_abandon(self);
    Py_RETURN_NONE;
}

PyMethodDef job_methods[] = {
    { "submit", (PyCFunction)job_submit, METH_O,
      "submit(notifier): runs on in a worker, up to the next event: then on_ready() is called." },
    { "kill", (PyCFunction)job_kill, METH_NOARGS, "Stops the guest hard. Does not wait for that." },
    { "stop", (PyCFunction)job_stop, METH_NOARGS,
      "Ends the run, wherever it is: the guest is stopped hard. Waits for that." },
    { NULL, NULL, 0, NULL },
};

/* ---- Notifiers ---------------------------------------------------------------------------- */

static PyObject *notifier_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { NULL };
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":Notifier", names)) return NULL;
    notifier_object *self = (notifier_object *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    self->forks = native_forks;
    self->done_last = &self->done;
    pthread_mutex_init(&self->lock, NULL);
    if (self->fd >= 0) return (PyObject *)self;
    PyErr_SetFromErrno(PyExc_OSError);
    Py_DECREF(self);
    return NULL;
}

static void notifier_dealloc(notifier_object *self) {
    PyTypeObject *type = Py_TYPE(self);
    if (self->forks == native_forks) {
        pthread_mutex_lock(&self->lock); /* a worker may be about to leave */
        pthread_mutex_unlock(&self->lock);
        pthread_mutex_destroy(&self->lock);
    }
    if (self->fd >= 0) close(self->fd);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *notifier_fileno(notifier_object *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromLong(self->fd);
}

static void call_ready(session_object *job) {
    PyObject *ready = job->on_ready ? Py_NewRef(job->on_ready) : NULL;
    PyObject *r = ready ? PyObject_CallNoArgs(ready) : NULL;
    if (ready && !r) PyErr_WriteUnraisable(ready);
    Py_XDECREF(r);
    Py_XDECREF(ready);
}

static PyObject *notifier_dispatch(notifier_object *self, PyObject *unused) {
    (void)unused;
    uint64_t count;
    if (self->forks != native_forks) Py_RETURN_NONE;
    while (read(self->fd, &count, sizeof count) < 0 && errno == EINTR) {
    }
    for (;;) { /* one at a time: what is called may stop another, that is in the list */
        session_object *job = unlist(self, NULL);
        if (!job) Py_RETURN_NONE;
        job_take_back(job);
        call_ready(job);
        Py_DECREF(job);
    }
}

static PyMethodDef notifier_methods[] = {
    { "fileno", (PyCFunction)notifier_fileno, METH_NOARGS, "The eventfd, for add_reader()." },
    { "dispatch", (PyCFunction)notifier_dispatch, METH_NOARGS,
      "Calls on_ready of the sessions whose workers are done." },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
    { Py_tp_doc, (void *)"Notifier()\n--\n\nWhere workers tell an event loop that they are done." },
    { Py_tp_new, (void *)notifier_new },
    { Py_tp_dealloc, (void *)notifier_dealloc },
    { Py_tp_methods, notifier_methods },
    { 0, NULL },
};

static PyType_Spec spec = {
    .name = "brumate._native.Notifier",
    .basicsize = sizeof(notifier_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

/* ---- The end of the process ---------------------------------------------------------------- */

/* Jobs that were not begun are told as failed. Under lock. */
static void refuse_waiting(void) {
    while (first) {
        session_object *job = first;
        first = job->next_job;
        waiting--;
        job->job_status = job->job_error.status = BRU_ESTATE;
        PyOS_snprintf(job->job_error.message, sizeof job->job_error.message, "the process ends");
        tell(job);
    }
    last = &first;
}

static PyObject *workers_stop(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    struct timespec until;
    Py_BEGIN_ALLOW_THREADS
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += STOP_SECONDS;
    pthread_mutex_lock(&lock);
    stopping = true;
    refuse_waiting();
    for (session_object *job = running; job; job = job->next_running)
        bru_session_interrupt(job->session, BRU_INTERRUPT_HARD);
    pthread_cond_broadcast(&work);
    while (threads > 0 && pthread_cond_timedwait(&work, &lock, &until) == 0) {
    }
    pthread_mutex_unlock(&lock);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef stop_method = { "stop_workers", workers_stop, METH_NOARGS,
                                   "Ends all workers, at the end of the process." };

int worker_add(PyObject *module) {
    static bool prepared;
    if (!prepared) {
        prepare_work();
        int failed = pthread_atfork(before_fork, after_fork, in_child);
        if (failed) return errno = failed, PyErr_SetFromErrno(PyExc_OSError), -1;
        prepared = true;
    }
    if (native_add_type(module, &spec, &notifier_type) < 0) return -1;
    PyObject *stop = PyCFunction_New(&stop_method, NULL);
    PyObject *atexit = stop ? PyImport_ImportModule("atexit") : NULL;
    PyObject *r = atexit ? PyObject_CallMethod(atexit, "register", "O", stop) : NULL;
    Py_XDECREF(atexit);
    Py_XDECREF(stop);
    Py_XDECREF(r);
    return r ? 0 : -1;
}
