package link_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
)

// A step reads the outputs of another one, and the file of its lesson, also when further steps of its execution end in the same worker
// meanwhile: the node refuses what is asked in their name.
func TestReadsWhileOthersEnd(t *testing.T) {
	const held = 20
	fakeMedia := []string{"media:one/a.mp3", "none"} // the first step alone reads the file
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
						answer.Tasks = append(answer.Tasks, wire.Task{ID: wire.ID{StepID: fakeStep(i), Epoch: uint32(i + 1)}, ExecutionNo: 1, StepName: "s", Action: "t.any", Params: json.RawMessage(`{"file":"` + fakeMedia[min(i, 1)] + `"}`), Media: fakeMedia[0]})
					}
				})
			}
			out = answer
		case name == "steps/"+fakeStep(0)+"/outputs/big":
			out = wire.Value{Found: true, Value: json.RawMessage(`{"n":1}`)}
		case name == "steps/"+fakeStep(0)+"/media":
			out = wire.MediaPart{Size: 5, Data: []byte("sound")}
		case strings.HasSuffix(name, "/outputs/big"), strings.HasSuffix(name, "/media"):
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
			sound, err2 := os.ReadFile(c.Params["file"].(string))
			read <- fmt.Sprintln(string(raw), string(sound), err, err2)
			close(ended)
		}
		<-ended
		return nil, nil
	})
	select {
	case got := <-read:
		if got != fmt.Sprintln(`{"n":1}`, "sound", nil, nil) {
			t.Errorf("the step reads %s", got)
		}
	case <-time.After(time.Minute):
		t.Fatal("the step does not run")
	}
	stop()
}
