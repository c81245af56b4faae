/* The stand-in driver's graphs: nodes in one row, as a stream would have them. Included by fake_libcuda.c only. */
#ifndef KILN_TESTS_SUPPORT_FAKE_GRAPH_H
#define KILN_TESTS_SUPPORT_FAKE_GRAPH_H

typedef struct graph_node {
    object *kernel; /* NULL: a copy */
    kiln_fake_launch launch;
    CUdeviceptr to, from;
    size_t bytes;
} graph_node;

static kiln__cu_enum fake_cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    BEGIN;
    CHECK(flags == 0, INVALID_VALUE);
    *graph = (CUgraph)add(GRAPH, NULL);
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuGraphDestroy(CUgraph graph)
{
    BEGIN;
    CHECK(live(graph, GRAPH) != NULL, INVALID_HANDLE);
    drop((object *)graph);
    return leave(KILN__CUDA_SUCCESS);
}

/* A node's handle is its number. It comes after all that are there already, and must say so. */
static kiln__cu_enum append(CUgraph handle, CUgraphNode *out, const CUgraphNode *after, size_t count,
                            const graph_node *node)
{
    object *graph = live(handle, GRAPH);
    CHECK(graph != NULL, INVALID_HANDLE);
    CHECK(graph->nodes == 0 ? count == 0 : count == 1 && (uintptr_t)after[0] == graph->nodes, INVALID_VALUE);
    graph->memory = realloc(graph->memory, (graph->nodes + 1) * sizeof(*node));
    if (graph->memory == NULL)
        abort();
    memcpy(graph->memory + graph->nodes++ * sizeof(*node), node, sizeof(*node));
    *out = (CUgraphNode)(uintptr_t)graph->nodes;
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                               size_t after_count,
                                               const struct CUDA_KERNEL_NODE_PARAMS_v2_st *parameters)
{
    BEGIN;
    const kiln__cu_kernel_node *given = (const kiln__cu_kernel_node *)parameters;
    graph_node node = { .kernel = live(given->kernel, KERNEL), .launch = { .shared = given->shared_bytes } };
    CHECK(node.kernel != NULL && given->function == NULL && live(given->context, CONTEXT) != NULL, INVALID_HANDLE);
    CHECK(given->extra == NULL, INVALID_VALUE);
    memcpy(node.launch.grid, given->grid, sizeof(given->grid));
    memcpy(node.launch.block, given->block, sizeof(given->block));
    kiln__cu_enum code = check_shape(node.kernel, &node.launch);
    if (code != KILN__CUDA_SUCCESS)
        return leave(code);
    node.launch.context = given->context;
    read_parameters(node.kernel, &node.launch, given->parameters);
    return append(graph, out, after, after_count, &node);
}

static kiln__cu_enum fake_cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                               size_t after_count, const struct CUDA_MEMCPY3D_st *copy,
                                               CUcontext context)
{
    BEGIN;
    const kiln__cu_copy_node *given = (const kiln__cu_copy_node *)copy;
    const graph_node node = { .to = given->to.device, .from = given->from.device, .bytes = given->width };
    CHECK(live(context, CONTEXT) != NULL, INVALID_HANDLE);
    CHECK(given->to.memory_type == KILN__CU_MEMORYTYPE_DEVICE && given->from.memory_type == given->to.memory_type &&
              given->height == 1 && given->depth == 1 && given->to.pitch >= given->width &&
              given->from.pitch >= given->width && is_mapped(node.to, node.bytes) && is_mapped(node.from, node.bytes),
          INVALID_VALUE);
    return append(graph, out, after, after_count, &node);
}

static kiln__cu_enum fake_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    BEGIN;
    object *found = live(graph, GRAPH);
    CHECK(found != NULL, INVALID_HANDLE);
    CHECK(flags == 0 && found->nodes > 0, INVALID_VALUE);
    object *made = add(EXEC, NULL);
    made->nodes = found->nodes;
    made->memory = malloc(found->nodes * sizeof(graph_node));
    if (made->memory == NULL)
        abort();
    memcpy(made->memory, found->memory, found->nodes * sizeof(graph_node));
    *exec = (CUgraphExec)made;
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuGraphExecDestroy(CUgraphExec exec)
{
    BEGIN;
    CHECK(live(exec, EXEC) != NULL, INVALID_HANDLE);
    drop((object *)exec);
    return leave(KILN__CUDA_SUCCESS);
}

/* One after the other; a kernel or memory that has gone is what a GPU would fault on. */
static kiln__cu_enum fake_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    object *context;
    BEGIN;
    object *found = live(exec, EXEC);
    kiln__cu_enum code = context_of(stream, &context);
    CHECK(found != NULL && code == KILN__CUDA_SUCCESS, INVALID_HANDLE);
    spend_host();
    for (size_t i = 0; i < found->nodes; i++) {
        graph_node node;
        memcpy(&node, found->memory + i * sizeof(node), sizeof(node));
        node.launch.stream = stream;
        if (node.kernel != NULL) {
            CHECK(live(node.kernel, KERNEL) != NULL, ILLEGAL_ADDRESS);
            perform(node.kernel, &node.launch);
        } else {
            CHECK(is_mapped(node.to, node.bytes) && is_mapped(node.from, node.bytes), ILLEGAL_ADDRESS);
            spend_gpu(COPY_NS);
            memmove(host(node.to), host(node.from), node.bytes);
        }
    }
    return leave(KILN__CUDA_SUCCESS);
}

#endif
