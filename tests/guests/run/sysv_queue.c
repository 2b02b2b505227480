/* Sends to and receives from a System V message queue, and uses a semaphore. */
#include "hostile.h"
#include <sys/msg.h>
#include <sys/sem.h>

int main(int argc, char **argv)
{
    (void)argc;
    int queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    int semaphore = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
    struct {
        long type;
        unsigned body;
    } message;
    struct msqid_ds ds;
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        message.type = 1;
        message.body = round;
        say("send", msgsnd(queue, &message, sizeof message.body, 0));
        struct sembuf up = {0, 1, 0};
        say("semop", semop(semaphore, &up, 1));
        cold_reads(argv[1]);
        msgctl(queue, IPC_STAT, &ds);
        say("queued", ds.msg_qnum);
        say("value", semctl(semaphore, 0, GETVAL));
        if (round & 1) {
            say("receive", msgrcv(queue, &message, sizeof message.body, 0, IPC_NOWAIT));
            say("body", message.body);
        }
    }
    cold_reads(argv[1]);
    effect();
    say("remove", msgctl(queue, IPC_RMID, NULL));
    say("remove", semctl(semaphore, 0, IPC_RMID));
    return finish();
}
