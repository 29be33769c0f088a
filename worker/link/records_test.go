package link_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
)

// A step reads the outputs of another one also when further steps of its execution end in the same worker meanwhile: the node refuses
// what is asked in their name.
func TestOutputsWhileOthersEnd(t *testing.T) {
	const held = 20
	var given sync.Once
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var out any = struct{}{}
		switch name := strings.TrimPrefix(r.URL.Path, wire.Path); {
		case name == "join":
			out = wire.Joined{Node: "fake", LeaseSeconds: 15}
		case name == "turn":
			var in wire.Turn
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				t.Error(err)
			}
			var answer wire.Turned
			for i := range in.Outcomes {
				answer.Committed = append(answer.Committed, in.Outcomes[i].ID)
			}
			if in.Want > 0 {
				given.Do(func() {
					for i := range held { // the first one reads; of the others the node says that they are over
						answer.Tasks = append(answer.Tasks, wire.Task{ID: wire.ID{StepID: fakeStep(i), Epoch: uint32(i + 1)}, ExecutionNo: 1, StepName: "s", Action: "t.any", Params: json.RawMessage(`{}`)})
					}
				})
			}
			out = answer
		case name == "steps/"+fakeStep(0)+"/outputs/big":
			out = wire.Value{Found: true, Value: json.RawMessage(`{"n":1}`)}
		case strings.HasSuffix(name, "/outputs/big"):
			w.WriteHeader(http.StatusConflict)
			out = wire.Problem{Code: stepwell.CodeConflict, Message: "the attempt is not this worker's"}
		}
		_ = json.NewEncoder(w).Encode(out) // the test waits for what follows
	}))
	defer server.Close()
	var all sync.WaitGroup
	all.Add(held)
	read := make(chan string, 1)
	stop := work(t, server.URL, held, func(ctx context.Context, c *action.Call) (any, error) {
		all.Done()
		all.Wait()
		if c.Epoch == 1 {
			raw, err := c.Host.Outputs(ctx, "big")
			if err != nil {
				raw = []byte(err.Error())
			}
			read <- string(raw)
			close(ended)
		}
		<-ended
		return nil, nil
	})
	if got := <-read; got != `{"n":1}` {
		t.Errorf("the step reads %s", got)
	}
	stop()
}
