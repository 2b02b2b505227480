// A web server with one planted cause of its speed: planted CAUSE PORT [PLACE].
package main

import (
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	cause, port, place := os.Args[1], os.Args[2], ""
	if len(os.Args) > 3 {
		place = os.Args[3]
	}
	body := make([]byte, 1024)
	var lock sync.Mutex
	var busy atomic.Bool
	connections := sync.Pool{New: func() any {
		connection, err := net.Dial("tcp", "127.0.0.1:"+place)
		if err != nil {
			panic(err)
		}
		return connection
	}}
	http.HandleFunc("/", func(answer http.ResponseWriter, _ *http.Request) {
		switch cause {
		case "sleep":
			time.Sleep(10 * time.Millisecond)
		case "lock":
			lock.Lock()
			time.Sleep(3 * time.Millisecond)
			lock.Unlock()
		case "compute-in-turn":
			lock.Lock()
			for end := time.Now().Add(2 * time.Millisecond); time.Now().Before(end); {
			}
			lock.Unlock()
		case "yield":
			for !busy.CompareAndSwap(false, true) {
				runtime.Gosched()
			}
			time.Sleep(time.Millisecond)
			busy.Store(false)
		case "ask":
			connection := connections.Get().(net.Conn)
			connection.Write([]byte("GET / HTTP/1.1\r\nHost: late\r\n\r\n"))
			connection.Read(make([]byte, 1024))
			connections.Put(connection)
		}
		answer.Write(body)
	})
	panic(http.ListenAndServe("127.0.0.1:"+port, nil))
}
