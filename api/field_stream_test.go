package api_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/columns"
)

// followField reads a stream of changes to its end, into the states of steps by index.
func (r *rig) followField(ctx context.Context, id string, since int64, states map[int]string, mode ...websocket.CompressionMode) (last int64, again bool) {
	r.t.Helper()
	address := fmt.Sprintf("%s/api/v1/executions/%s/field/stream?since=%d", strings.Replace(r.server.URL, "http", "ws", 1), id, since)
	o := websocket.DialOptions{Subprotocols: []string{access.Subprotocol}, HTTPHeader: http.Header{"Authorization": {"Bearer viewer"}}}
	if len(mode) > 0 {
		o.CompressionMode = mode[0]
	}
	c, answer, err := websocket.Dial(ctx, address, &o)
	good(r.t, err)
	if got := strings.HasPrefix(answer.Header.Get("Sec-WebSocket-Extensions"), "permessage-deflate"); got != (len(mode) > 0) {
		r.t.Errorf("messages are compressed: %v, want %v", got, len(mode) > 0)
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(8 << 20)
	for last = since; ; {
		kind, raw, err := c.Read(ctx)
		if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
			return last, again
		}
		good(r.t, err)
		table, err := columns.Decode(raw)
		good(r.t, err)
		if kind != websocket.MessageBinary || table.Version <= last {
			r.t.Errorf("a message of kind %v, version %d behind %d", kind, table.Version, last)
		}
		last, again = table.Version, again || table.Again
		for k, i := range table.Column("index") {
			states[int(i)] = table.States[table.Column("status")[k]]
		}
	}
}

// TestFieldStream: a page that fetches the columns once and follows them has what a page that fetches them at the end has.
func TestFieldStream(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("editor"), t.Context()
	waits := strings.Replace(shapes, "\nsteps:", "\nsteps:\n  - {id: ask, action: util.approval, depends_on: [first], params: {message: go on?}}", 1)
	waits = strings.Replace(waits, "depends_on: [group]", "depends_on: [group, ask]", 1)
	id := api.ExecutionPath{ID: r.begin(waits, nil)}
	r.until("the step waits", func() bool {
		l, err := c.Approvals(ctx, api.ListApprovals{})
		good(t, err)
		return len(l.Approvals) == 1
	})
	f, err := c.Field(ctx, api.GetField{ExecutionPath: id})
	good(t, err)
	states := map[int]string{}
	for i, status := range f.Column("status") {
		states[i] = f.States[status]
	}
	done := make(chan bool, 1)
	go func() {
		_, again := r.followField(ctx, id.ID, f.Version, states)
		done <- again
	}()
	asked, err := c.Approvals(ctx, api.ListApprovals{})
	good(t, err)
	_, err = c.Approve(ctx, asked.Approvals[0].ID, "")
	good(t, err)
	_, err = c.Wait(ctx, id.ID)
	good(t, err)
	if <-done {
		t.Error("so few steps are to be fetched again")
	}
	end, err := c.Field(ctx, api.GetField{ExecutionPath: id})
	good(t, err)
	for i, status := range end.Column("status") {
		if got := states[i]; got != end.States[status] && !(got == "" && end.States[status] == "absent") {
			t.Errorf("the page that followed has step %d %s, it is %s", i, got, end.States[status])
		}
	}
	late := map[int]string{} // from the log, behind an early version
	if last, _ := r.followField(ctx, id.ID, f.Version, late); last != end.Version || len(late) == 0 {
		t.Errorf("a page that comes back gets to version %d of %d, %d steps", last, end.Version, len(late))
	}
	packed := map[int]string{}
	for _, mode := range []websocket.CompressionMode{websocket.CompressionNoContextTakeover, websocket.CompressionContextTakeover} {
		if last, _ := r.followField(ctx, id.ID, f.Version, packed, mode); last != end.Version || !maps.Equal(late, packed) {
			t.Errorf("compressed, a page gets to version %d of %d: %v, want %v", last, end.Version, packed, late)
		}
	}
	if _, again := r.followField(ctx, id.ID, 0, late); !again {
		t.Error("without a version the table is not fetched")
	}
	r.do("viewer", "GET", "/api/v1/executions/"+id.ID+"/field/stream", nil).problem(http.StatusUpgradeRequired, stepwell.CodeInvalid)
}
