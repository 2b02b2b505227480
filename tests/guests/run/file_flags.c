/* Sets an inode flag by ioctl, a file lease, and flags of the open file that others share. */
#include "hostile.h"
#include <sys/ioctl.h>
#include <linux/fs.h>

int main(int argc, char **argv)
{
    (void)argc;
    int fd = open("out/file", O_RDWR);
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        int flags = 0;
        ioctl(fd, FS_IOC_GETFLAGS, &flags);
        int status = fcntl(fd, F_GETFL);
        effect();
        dprintf(1, "was %x %x\n", flags & FS_NOATIME_FL, status);
        flags ^= FS_NOATIME_FL;
        say("set", ioctl(fd, FS_IOC_SETFLAGS, &flags));
        say("append", fcntl(fd, F_SETFL, round & 1 ? 0 : O_APPEND));
        lseek(fd, 0, SEEK_SET);
        say("write", write(fd, "appended or not\n", 16));
        say("at", lseek(fd, 0, SEEK_CUR));
    }
    return finish();
}
