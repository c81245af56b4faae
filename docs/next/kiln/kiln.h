/* Kiln: turns kernel templates and CUDA text into cached, tuned, launchable GPU kernels at run time.
 *
 * The short way, for a kernel of n elements:
 *
 *     kiln_service *service;
 *     kiln_spec *spec;
 *     kiln_kernel *kernel;
 *     void *out = ...;                                                     device memory
 *     const void *in = ...;
 *
 *     status = kiln_open(&service, NULL, &report);
 *     status = kiln_spec_parse(&spec, service, "op=hardsigmoid dtype=f32", &report);
 *     status = kiln_get_kernel(&kernel, service, spec, &report);           loaded, stored, or compiled now
 *     status = kiln_launch_n(kernel, n, &out, 1, &in, 1, stream, &report); no lock, no allocation
 *
 *     cuStreamSynchronize(stream);                                         or any other way to know that it is done
 *     kiln_kernel_release(kernel);
 *     kiln_spec_free(spec);
 *     kiln_close(service);
 *
 * The shorter way, by text: kiln_call(service, "op=hardsigmoid dtype=f32", n, &out, 1, &in, 1, stream, &report).
 *
 * The long way, for everything else:
 *
 *     1. a service                 kiln_open                                        <kiln/base.h>
 *     2. a spec or a source        kiln_spec_parse, kiln_source                     <kiln/kernel.h>, <kiln/source.h>
 *     3. a request for a program   kiln_get waits, kiln_submit answers on a queue   <kiln/kernel.h>
 *     4. a kernel of the program   kiln_program_kernel                              <kiln/kernel.h>
 *     5. launches of the kernel    kiln_launch, with sizes and arguments            <kiln/kernel.h>
 *
 * Beside the way: <kiln/device.h> devices and memory, <kiln/tune.h> the fastest geometry, <kiln/cache.h> the store on
 * disk. <kiln/base.h> has the rules that hold for all of them. */
#ifndef KILN_KILN_H
#define KILN_KILN_H

#include <kiln/base.h>
#include <kiln/cache.h>
#include <kiln/device.h>
#include <kiln/kernel.h>
#include <kiln/source.h>
#include <kiln/tune.h>

#endif
