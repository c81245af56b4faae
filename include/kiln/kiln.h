/* Kiln: turns kernel templates and CUDA text into cached, tuned, launchable GPU kernels at run time.
 *
 * The story, top to bottom:
 *
 *     kiln_service *service;             owns caches, compilers, devices and loaded kernels
 *     kiln_spec *spec;                   what is wanted: "op=hardsigmoid dtype=f32"
 *     kiln_kernel *kernel;               a loaded kernel, shared and reference-counted
 *     kiln_report report = KILN_INIT(kiln_report);
 *
 *     kiln_open(&service, NULL, &report);
 *     kiln_spec_parse(&spec, service, "op=hardsigmoid dtype=f32", &report);
 *     kiln_get_kernel(&kernel, service, spec, &report);           loaded, stored, or compiled now
 *     kiln_launch_n(kernel, n, &out, 1, &in, 1, stream, &report); no lock, no allocation
 *
 *     cuStreamSynchronize(stream);                                or any other way to know that it is done
 *     kiln_kernel_release(kernel);
 *     kiln_spec_free(spec);
 *     kiln_close(service);
 *
 * The way in headers:
 *
 *     1. <kiln/base.h>    statuses, reports, the service, and the rules that hold for all of the headers
 *     2. <kiln/kernel.h>  specs, requests that wait and requests that do not, launches, ops and templates of the host
 *     3. <kiln/source.h>  CUDA text of the host; <kiln/kernel.h> compiles and launches it
 *
 * Beside the way: <kiln/device.h> devices and memory, <kiln/tune.h> the fastest geometry, <kiln/cache.h> the store on
 * disk. This header includes them all. */
#ifndef KILN_KILN_H
#define KILN_KILN_H

#include <kiln/base.h>
#include <kiln/cache.h>
#include <kiln/device.h>
#include <kiln/kernel.h>
#include <kiln/source.h>
#include <kiln/tune.h>

#endif
