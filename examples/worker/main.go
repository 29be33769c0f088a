// A worker of one's own: an action in a process of its own, which a Stepwell server hands steps to. The same program is a plugin
// where a server starts it (docs/plugins.md).
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/worker/link"
)

type params struct {
	Text string `json:"text" doc:"What is counted."`
}

type outputs struct {
	Words int `json:"words"`
}

// words counts the words of a text. It has all that actions of the program itself have: log, progress, memos, waits.
var words = action.Of(spec.Spec{Name: "words.count", Summary: "Counts the words of a text."},
	func(_ context.Context, call *action.Call, p params) (*outputs, error) {
		call.Log("counting")
		return &outputs{len(strings.Fields(p.Text))}, nil
	})

func main() {
	if err := link.Serve("1.0", words); err != nil { // STEPWELL_SERVER and STEPWELL_API_KEY say where and who
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
