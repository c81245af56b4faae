#include "tune/progress.h"

#include "os/cpu.h"

#define PAUSE_S 0.05

void kiln__progress_count(kiln__progress *progress)
{
    kiln__contest_count(progress->contest, progress->info);
    progress->info->seconds = (double)(kiln__cpu_now_ns() - progress->start) / 1e9;
}

bool kiln__progress_tell(kiln__progress *progress)
{
    uint64_t now = kiln__cpu_now_ns();
    if (progress->fn == NULL || (double)(now - progress->told) / 1e9 < PAUSE_S)
        return false;
    progress->told = now;
    kiln__progress_count(progress);
    return progress->fn(progress->data, progress->info) != 0;
}
