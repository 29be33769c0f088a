package desk_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/worker/link"
)

// processNode is the variable that makes this program a worker of a node.
const processNode = "DESK_TEST_NODE"

// runWorkerProcess is the program of a worker that lives until it is killed. It reports whether this process was one.
func runWorkerProcess() bool {
	url := os.Getenv(processNode)
	if url == "" {
		return false
	}
	r := &action.Registry{}
	err := r.Add(act("t.far", func(_ context.Context, c *action.Call) (any, error) { return map[string]any{"v": c.Params["n"]}, nil }))
	var w *link.Worker
	if err == nil {
		w, err = link.New(link.Options{Nodes: []string{url}, Name: fmt.Sprint("process-", os.Getpid()), Stream: os.Getpid()%2 == 0, Actions: r, Concurrency: 8, Log: quiet()})
	}
	if err == nil {
		err = w.Run(context.Background())
	}
	fmt.Fprintln(os.Stderr, err)
	return true
}

// Workers are killed again and again while they run steps: each step is counted once, in a log without gaps.
func TestWorkersAreKilled(t *testing.T) {
	n := newNode(t, dbOf(t), desk.Options{}, never("t.far"))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	killed := make(chan int)
	random := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	text.WriteString("name: killed\nsteps:\n")
	for i := range 60 {
		fmt.Fprintf(&text, "  - {id: a%d, action: t.far, params: {n: %d}}\n", i, i)
		for k := 1; k < 5; k++ {
			fmt.Fprintf(&text, "  - {id: a%d_%d, action: t.far, depends_on: [%s], params: {n: %d}}\n", i, k, strings.TrimSuffix(fmt.Sprintf("a%d_%d", i, k-1), "_0"), i)
		}
	}
	go func() {
		times := 0
		defer func() { killed <- times }()
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, self)
			cmd.Env = append(os.Environ(), processNode+"="+n.url)
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			// Once it holds something, it lives for a moment more. The third lives on: a step that is unlucky three times fails.
			for ctx.Err() == nil && !holds(n.desk, fmt.Sprint("process-", cmd.Process.Pid)) {
				time.Sleep(time.Millisecond)
			}
			if times < engine.MaxLostLeases-1 {
				_ = action.Pause(ctx, time.Duration(random.IntN(10))*time.Millisecond)
			} else {
				<-ctx.Done()
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
			times++
			n.pass(time.Minute)
		}
	}()
	id := n.begin(text.String())
	x, _ := n.end(id, stepwell.ExecutionCompleted)
	n.books(x, 300)
	stop()
	if times := <-killed; times < 2 {
		t.Errorf("%d workers were killed", times)
	}
}

func holds(d *desk.Desk, name string) bool {
	for _, w := range d.Workers() {
		if w.Name == name && w.Held > 0 {
			return true
		}
	}
	return false
}
