package main

import (
	"context"
	"fmt"
	"os"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/store"
)

// pipeline counts every file it is given, three at a time.
const pipeline = `
name: wordcount
parameters:
  - {name: files, type: array}
steps:
  - id: count
    action: words.count
    for_each: "{{ params.files }}"
    max_concurrency: 3
    params: {file: "{{ item }}"}
outputs:
  total: "{{ steps.count.outputs.results | map(attribute='words') | sum }}"
`

func main() {
	files := make([]any, len(os.Args)-1)
	for i, name := range os.Args[1:] {
		files[i] = name
	}
	x, err := count(context.Background(), "wordcount.db", files)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(x.Status, string(x.Outputs))
}

// count runs the pipeline to its end and returns how it went.
func count(ctx context.Context, db string, files []any) (*store.Execution, error) {
	a, err := app.New(ctx, app.Options{DB: db, Register: func(r *action.Registry) error { return r.Add(words()) }})
	if err != nil {
		return nil, err
	}
	defer a.Close()
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	defer func() { stop(); <-ended }()

	d, problems := definition.Parse([]byte(pipeline), definition.ParseOptions{File: "wordcount.yaml"})
	if d != nil {
		problems = append(problems, definition.Check(d, a.Actions, "wordcount.yaml")...)
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	p, err := a.Conductor.Register(ctx, d)
	if err != nil {
		return nil, err
	}
	id, err := a.Conductor.Start(ctx, conductor.Request{Pipeline: p, Params: map[string]any{"files": files}})
	if err != nil {
		return nil, err
	}
	return a.Conductor.Wait(ctx, id)
}
