//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/proxytest"
)

// repeater is a proxy between workers and a server that sends each of their messages twice while it is on: the frames of a stream in both directions,
// the calls over HTTP, of which the answers to the first and to the second are passed on in turn. Connections of servers pass as they are.
type repeater struct {
	*proxytest.Proxy
	on       atomic.Bool
	streams  bool         // false: it refuses them, so that workers make calls over HTTP
	repeated atomic.Int64 // messages
}

func newRepeater(t *testing.T, server string, streams bool) *repeater {
	t.Helper()
	p := &repeater{streams: streams}
	p.Proxy = proxytest.Carrying(t, server, p.carry)
	return p
}

func (p *repeater) carry(client, server net.Conn) {
	from, back := bufio.NewReader(client), bufio.NewReader(server)
	end := func() { _, _ = client.Close(), server.Close() }
	if head, err := from.Peek(len("POST " + wire.Path)); err != nil || !bytes.Contains(head, []byte(strings.TrimSuffix(wire.Path, "/"))) {
		go func() { defer end(); _, _ = io.Copy(client, back) }()
		_, _ = io.Copy(server, from)
		return
	}
	for {
		req, err := http.ReadRequest(from)
		if err != nil {
			return
		}
		stream := req.Header.Get("Upgrade") != ""
		if stream && !p.streams {
			_, _ = io.WriteString(client, "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			return
		}
		resp, err := p.exchange(req, server, back)
		if err != nil || resp.Write(client) != nil {
			return
		}
		if stream && resp.StatusCode == http.StatusSwitchingProtocols {
			go func() { defer end(); p.frames(client, back) }()
			p.frames(server, from)
			return
		}
	}
}

// exchange sends a request, and while the repeater is on the same once more.
func (p *repeater) exchange(req *http.Request, server io.Writer, back *bufio.Reader) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	send := func() (*http.Response, error) {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if err := req.Write(server); err != nil {
			return nil, err
		}
		resp, err := http.ReadResponse(back, req)
		if err != nil || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body = io.NopCloser(bytes.NewReader(raw))
		return resp, err
	}
	first, err := send()
	if err != nil || req.Method != http.MethodPost || !p.on.Load() {
		return first, err
	}
	second, err := send()
	if p.repeated.Add(1)%2 == 0 {
		return first, err
	}
	return second, err
}

// frames passes the frames of a WebSocket on in one direction; while the repeater is on, each message of a single one twice.
func (p *repeater) frames(to io.Writer, from *bufio.Reader) {
	for {
		frame, err := readFrame(from)
		if err != nil {
			return
		}
		const last, text = 0x80, 1
		if frame[0] == last|text && p.on.Load() {
			p.repeated.Add(1)
			frame = append(frame, frame...)
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

// readFrame reads one frame as it is (RFC 6455, 5.2).
func readFrame(from *bufio.Reader) ([]byte, error) {
	head, err := from.Peek(2)
	if err != nil {
		return nil, err
	}
	size, length := 2, int(head[1]&0x7f)
	switch length {
	case 126:
		size = 4
	case 127:
		size = 10
	}
	if head, err = from.Peek(size); err != nil {
		return nil, err
	}
	switch size {
	case 4:
		length = int(binary.BigEndian.Uint16(head[2:]))
	case 10:
		length = int(binary.BigEndian.Uint64(head[2:]))
	}
	if head[1]&0x80 != 0 { // the key of the mask
		size += 4
	}
	frame := make([]byte, size+length)
	_, err = io.ReadFull(from, frame)
	return frame, err
}
