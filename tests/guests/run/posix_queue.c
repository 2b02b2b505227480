/* Sends to and receives from a POSIX message queue, and posts a named-like semaphore in shared memory. */
#include "hostile.h"
#include <mqueue.h>
#include <semaphore.h>

int main(int argc, char **argv)
{
    (void)argc;
    char name[64], body[64];
    snprintf(name, sizeof name, "/compat-%d", getpid());
    struct mq_attr attributes = {.mq_maxmsg = 8, .mq_msgsize = sizeof body};
    mqd_t queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR | O_NONBLOCK, 0600, &attributes);
    if (queue == (mqd_t)-1)
        die("mq_open");
    mq_unlink(name);
    sem_t *semaphore = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(semaphore, 1, 0);
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        snprintf(body, sizeof body, "round %d", round);
        say("send", mq_send(queue, body, strlen(body) + 1, 0));
        sem_post(semaphore);
        cold_reads(argv[1]);
        int value = -1;
        sem_getvalue(semaphore, &value);
        say("value", value);
        mq_getattr(queue, &attributes);
        say("queued", attributes.mq_curmsgs);
        if (round & 1) {
            say("receive", mq_receive(queue, body, sizeof body, NULL));
            dprintf(1, "%s\n", body);
        }
    }
    mq_close(queue);
    return finish();
}
