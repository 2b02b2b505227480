/* Serves files over RTSP with GStreamer's server: rtsp_server PORT [--sound] FILE... has each file as
   rtsp://127.0.0.1:PORT/NUMBER, numbered from 0, with its H.264 and, if asked to, its AAC. Files are in Matroska (.mkv), in a
   transport stream (.ts) or else in MP4. Every client has a pipeline of its own, as for files that are asked for one by one. */

#include <gst/gst.h>
#include <gst/rtsp-server/rtsp-server.h>
#include <stdio.h>
#include <string.h>

static const char *demuxer(const char *file)
{
    const char *dot = strrchr(file, '.');
    if (dot && !strcmp(dot, ".mkv"))
        return "matroskademux";
    if (dot && !strcmp(dot, ".ts"))
        return "tsdemux";
    return "qtdemux";
}

int main(int argc, char **argv)
{
    gst_init(&argc, &argv);
    int has_sound = argc > 2 && !strcmp(argv[2], "--sound");
    int first = has_sound ? 3 : 2;
    if (argc <= first) {
        fprintf(stderr, "usage: rtsp_server PORT [--sound] FILE...\n");
        return 2;
    }
    GstRTSPServer *server = gst_rtsp_server_new();
    gst_rtsp_server_set_address(server, "127.0.0.1");
    gst_rtsp_server_set_service(server, argv[1]);
    GstRTSPMountPoints *mounts = gst_rtsp_server_get_mount_points(server);
    for (int file = first; file < argc; file++) {
        GstRTSPMediaFactory *factory = gst_rtsp_media_factory_new();
        const char *format = has_sound
            ? "( filesrc location=%s ! %s name=d d. ! queue ! h264parse ! rtph264pay name=pay0 pt=96 "
              "d. ! queue ! aacparse ! rtpmp4gpay name=pay1 pt=97 )"
            : "( filesrc location=%s ! %s ! h264parse ! rtph264pay name=pay0 pt=96 )";
        gchar *launch = g_strdup_printf(format, argv[file], demuxer(argv[file]));
        gchar *path = g_strdup_printf("/%d", file - first);
        gst_rtsp_media_factory_set_launch(factory, launch);
        gst_rtsp_mount_points_add_factory(mounts, path, factory);
        g_free(path);
        g_free(launch);
    }
    g_object_unref(mounts);
    if (gst_rtsp_server_attach(server, NULL) == 0) {
        fprintf(stderr, "rtsp_server: cannot listen on port %s\n", argv[1]);
        return 1;
    }
    g_main_loop_run(g_main_loop_new(NULL, FALSE));
    return 0;
}
