/* What was called, and what a test asked to fail. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "standin.h"

#define MAX_FAULTS 32

/* Nonzero while calls are recorded or may fail: the only thing that a call looks at otherwise. */
int standin_watching = 1;

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char *text;
static size_t used, room;
static int logging = 1;
static int sticky;
static struct { char name[64]; int code, skip, times; } faults[MAX_FAULTS];
static int fault_count;

static void watch(void) { standin_watching = logging || fault_count || sticky; }

/* A number from the environment, STANDIN_<name>. */
long standin_setting(const char *name, long otherwise) {
    char variable[64];
    snprintf(variable, sizeof variable, "STANDIN_%s", name);
    const char *value = getenv(variable);
    return value && *value ? strtol(value, NULL, 0) : otherwise;
}

/* Change a setting of this process; those that are read once, at its first call, stay. Empty: as it was. */
EXPORT void standin_set(const char *name, const char *value) {
    char variable[64];
    snprintf(variable, sizeof variable, "STANDIN_%s", name);
    if (*value) setenv(variable, value, 1);
    else unsetenv(variable);
}

/* From here on every call of the process returns the code, as after a kernel that touched foreign memory. */
int standin_sticky(int code) {
    sticky = code;
    watch();
    return code;
}

static int survives_sticky(const char *name) {
    static const char *const questions[] = {"cuGetErrorString", "cuGetErrorName", "cuDriverGetVersion", "cuInit",
                                            "cuDeviceGet", "cuDeviceGetCount", "cuDeviceGetAttribute",
                                            "cuDeviceGetName", "cuDeviceTotalMem", "cuCtxGetCurrent",
                                            "cuCtxSetCurrent", "cuCtxGetDevice", "cuGetProcAddress"};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (!strcmp(name, questions[i])) return 1;
    return 0;
}

static int fault_for(const char *name) {
    for (int i = 0; i < fault_count; i++) {
        if (strcmp(faults[i].name, name)) continue;
        if (faults[i].skip > 0) {
            faults[i].skip--;
            return SUCCESS;
        }
        int code = faults[i].code;
        if (faults[i].times > 0 && --faults[i].times == 0) faults[i] = faults[--fault_count];
        if (code == ILLEGAL_ADDRESS || code == LAUNCH_FAILED) sticky = code;
        return code;
    }
    return sticky && !survives_sticky(name) ? sticky : SUCCESS;
}

/* One line for a call: thread, device of the current context, name, arguments. Returns the code to fail with. */
int standin_record(const char *name, const char *format, ...) {
    pthread_mutex_lock(&log_lock);
    if (logging) {
        if (room - used < 8192) {
            room = room ? 2 * room : 1 << 16;
            text = realloc(text, room);
        }
        used += snprintf(text + used, 256, "%ld %d %s ", (long)syscall(SYS_gettid), current_device(), name);
        va_list arguments;
        va_start(arguments, format);
        int written = vsnprintf(text + used, 7000, format, arguments);
        va_end(arguments);
        used += written < 7000 ? written : 6999;
        text[used++] = '\n';
        text[used] = 0;
    }
    int code = fault_for(name);
    watch();
    pthread_mutex_unlock(&log_lock);
    return code;
}

EXPORT void standin_clear(void) {
    pthread_mutex_lock(&log_lock);
    used = 0;
    pthread_mutex_unlock(&log_lock);
}

/* The text of the log; it stays valid until the next call of the driver. */
EXPORT const char *standin_log(void) { return used ? text : ""; }

EXPORT void standin_set_logging(int on) {
    logging = on;
    watch();
}

/* After `skip` calls the function of this name fails `times` times (-1: always) with the code. */
EXPORT int standin_fail(const char *name, int code, int skip, int times) {
    pthread_mutex_lock(&log_lock);
    int fits = fault_count < MAX_FAULTS;
    if (fits) {
        snprintf(faults[fault_count].name, sizeof faults->name, "%s", name);
        faults[fault_count].code = code;
        faults[fault_count].skip = skip;
        faults[fault_count++].times = times;
    }
    watch();
    pthread_mutex_unlock(&log_lock);
    return fits;
}

/* No more faults, and a sticky error is gone: a new process, as it were. */
EXPORT void standin_heal(void) {
    fault_count = sticky = 0;
    watch();
}
