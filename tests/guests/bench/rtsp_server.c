/* Serves files over RTSP with GStreamer's server: rtsp_server PORT FILE... has each file as rtsp://127.0.0.1:PORT/NUMBER,
   numbered from 0. Every client has a pipeline of its own, as for files that are asked for one by one. */

#include <gst/gst.h>
#include <gst/rtsp-server/rtsp-server.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    gst_init(&argc, &argv);
    if (argc < 3) {
        fprintf(stderr, "usage: rtsp_server PORT FILE...\n");
        return 2;
    }
    GstRTSPServer *server = gst_rtsp_server_new();
    gst_rtsp_server_set_address(server, "127.0.0.1");
    gst_rtsp_server_set_service(server, argv[1]);
    GstRTSPMountPoints *mounts = gst_rtsp_server_get_mount_points(server);
    for (int file = 2; file < argc; file++) {
        GstRTSPMediaFactory *factory = gst_rtsp_media_factory_new();
        gchar *launch = g_strdup_printf(
            "( filesrc location=%s ! qtdemux ! h264parse ! rtph264pay name=pay0 pt=96 )", argv[file]);
        gchar *path = g_strdup_printf("/%d", file - 2);
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
