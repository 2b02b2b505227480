/* The main thread ends by pthread_exit while another reads on and ends the process. */
#include "hostile.h"

static const char *data;

static void *rest(void *argument)
{
    (void)argument;
    usleep(20000);
    cold_reads(data);
    effect();
    FILE *out = fopen("out/log", "a");
    fprintf(out, "after main %08x\n", checksum);
    fclose(out);
    finish();
    exit(5);
}

int main(int argc, char **argv)
{
    (void)argc;
    data = argv[1];
    pthread_t thread;
    cold_reads(data);
    pthread_create(&thread, NULL, rest, NULL);
    pthread_exit(NULL);
}
