/* The buffers between which the schedule computes. */
#ifndef BUFFERS_H
#define BUFFERS_H

#include "network.h"

/* The buffer of a task or of an input of the network: copies of (block capacity) rows, one behind the other. */
struct buffer {
    const char *name;
    const char *descr;
    unsigned char *bytes;
    size_t row, copies;
};

/* Returns the buffer of a task, or of an input for indices from network.task_count on. */
static inline struct buffer buffer_of(size_t index)
{
    if (index >= network.task_count) {
        const struct network_input *input = &network.inputs[index - network.task_count];
        return (struct buffer){input->name, input->descr, input->values, input->width * input->element_size, 1};
    }
    const struct task *task = &network.tasks[index];
    const struct layer *layer = &network.layers[task->layer];
    return (struct buffer){task->name, layer->descr, task->buffer, task->width * layer->element_size, task->copies};
}

#endif
