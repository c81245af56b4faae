/* Kiln: turns kernel templates and CUDA text into cached, tuned, launchable GPU kernels at run time.
 *
 *     kiln_service *service;             owns stores, compilers, devices and loaded kernels
 *     kiln_spec *spec;                   describes a kernel: "op=hardsigmoid dtype=f32"
 *     kiln_kernel *kernel;               a loaded, launchable, reference-counted function
 *     kiln_report report = KILN_INIT(kiln_report);
 *
 *     kiln_open(&service, NULL, &report);
 *     kiln_spec_parse(&spec, service, "op=hardsigmoid dtype=f32", &report);
 *     kiln_get_kernel(&kernel, service, spec, &report);           loaded, stored, or compiled now
 *     kiln_launch_n(kernel, n, &out, 1, &in, 1, stream, &report); no lock, no allocation
 *
 *     cuStreamSynchronize(stream);                                or another wait for the launch
 *     kiln_kernel_release(kernel);
 *     kiln_spec_free(spec);
 *     kiln_close(service);
 *
 * This header includes all others but <kiln/dlpack.h>:
 *
 *     <kiln/base.h>    statuses, reports, the service, and the rules for all headers
 *     <kiln/kernel.h>  specs, requests, programs, kernels, launches, queues, user-defined ops and templates,
 *                      manifests
 *     <kiln/source.h>  CUDA sources
 *     <kiln/tensor.h>  tensors, and ops on them
 *     <kiln/device.h>  devices and their memory
 *     <kiln/tune.h>    tuning, verification, timing, live handles, wisdom
 *     <kiln/cache.h>   the store on disk
 *     <kiln/daemon.h>  the daemon and its figures */
#ifndef KILN_KILN_H
#define KILN_KILN_H

#include <kiln/base.h>
#include <kiln/cache.h>
#include <kiln/daemon.h>
#include <kiln/device.h>
#include <kiln/kernel.h>
#include <kiln/source.h>
#include <kiln/tensor.h>
#include <kiln/tune.h>

#endif
