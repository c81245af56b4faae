/* The devices that tune a list of specs: each has a thread; those of one model share the list, each model gets all
 * of it. */
#ifndef KILN_TOOLS_TUNECREW_H
#define KILN_TOOLS_TUNECREW_H

#include "tune/sandbox.h"

typedef struct tune_device {
    char *name; /* NULL: the service's default one */
    size_t model;
} tune_device;

typedef struct tune_crew {
    kiln_service *service;
    tune_device *devices;
    size_t device_count, model_count;
    char **specs; /* canonical texts */
    bool *boxed;  /* of each: whether it is tuned in a sandbox */
    size_t spec_count;
    tune_job like; /* what all jobs have in common */
    sandbox box;   /* for those that are */
} tune_crew;

/* Called on the calling thread with each result, in the order of the specs and, for one spec, of the models. Returns
 * whether to go on. */
typedef bool (*tune_result_fn)(void *data, const tune_result *result);

/* Reads "cuda:0,cuda:1" or "all" (every GPU that the driver shows) into devices and models; opens the devices where
 * there is more than one. NULL or one name: the default device of the service. Returns STATUS_DONE, or the exit
 * status after a message. tune_crew_free is right after either. */
int tune_crew_devices(tune_crew *crew, struct session *session, const char *names);

/* Tunes everything, showing progress on stderr. After an interrupt (SIGINT), a failure, or where fn returned false
 * no further job is begun; those at work end with what they know after an interrupt, and as usual else. A second
 * interrupt ends the process. */
void tune_crew_work(const tune_crew *crew, tune_result_fn fn, void *data);

/* Frees devices and specs. */
void tune_crew_free(tune_crew *crew);

#endif
