package actiontest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/spec"
)

// copyFiles copies what a step named scan_sd has found, and starts a step for every file as soon as its
// copy is there.
func copyFiles() action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:      "copy_files",
			Summary:   "Copies the files that were found.",
			DependsOn: []string{"scan_sd"},
			Spawns:    []string{"extract_metadata"},
		},
		Handler: action.HandlerFunc(func(ctx context.Context, call *action.Call) (any, error) {
			data, err := call.Host.Data(ctx)
			if err != nil {
				return nil, err
			}
			var files []string
			if err := json.Unmarshal(data["files"], &files); err != nil {
				return nil, action.Fail(err)
			}
			for i, file := range files {
				call.Log("copied " + file)
				call.Host.Progress(float64(i+1)/float64(len(files)), file)
				if err := call.Spawn(ctx, action.NewStep{Name: "extract_metadata", Params: map[string]any{"file": file}}); err != nil {
					return nil, err
				}
			}
			return map[string]any{"copied": len(files)}, nil
		}),
	}
}

// extractMetadata is spawned once for each file; the file is part of the step's key.
func extractMetadata() action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:     "extract_metadata",
			Params:   []spec.Field{{Name: "file", Type: spec.String, Required: true}},
			KeyParam: "file",
		},
		Handler: action.HandlerFunc(func(context.Context, *action.Call) (any, error) { return nil, nil }),
	}
}

// A step reads the data that earlier steps have accumulated, logs, reports its progress and spawns other
// steps while it runs.
func Example() {
	var registry action.Registry
	if err := registry.Add(copyFiles(), extractMetadata()); err != nil {
		panic(err)
	}
	result := actiontest.Run(context.Background(), copyFiles(), actiontest.Call{
		Data:     map[string]any{"files": []string{"GX010042.MP4", "GX010043.MP4"}},
		Registry: &registry,
	})
	fmt.Println(result.Outputs, result.Err)
	for _, line := range result.Logs {
		fmt.Println(line.Level, line.Message)
	}
	for _, p := range result.Progress {
		fmt.Println(p.Fraction, p.Note)
	}
	for _, step := range result.Spawned {
		fmt.Println(step.StepKey(), step.DependsOn)
	}
	// Output:
	// map[copied:2] <nil>
	// INFO copied GX010042.MP4
	// INFO copied GX010043.MP4
	// 0.5 GX010042.MP4
	// 1 GX010043.MP4
	// extract_metadata:GX010042.MP4 []
	// extract_metadata:GX010043.MP4 []
}

// A step declares what it depends on: steps of it that name no dependencies of their own get these.
func Example_dependencies() {
	var registry action.Registry
	if err := registry.Add(copyFiles(), extractMetadata()); err != nil {
		panic(err)
	}
	start := action.Action{
		Spec: spec.Spec{Name: "start"},
		Handler: action.HandlerFunc(func(ctx context.Context, call *action.Call) (any, error) {
			return nil, call.Spawn(ctx,
				action.NewStep{Name: "copy_files"},
				action.NewStep{Name: "copy_files", Key: "now", DependsOn: []string{}})
		}),
	}
	result := actiontest.Run(context.Background(), start, actiontest.Call{Registry: &registry})
	for _, step := range result.Spawned {
		fmt.Println(step.StepKey(), step.DependsOn)
	}
	// Output:
	// copy_files [scan_sd]
	// copy_files:now []
}

// What must not happen twice goes into Once: the next attempt, with the same Memory, gets the first result.
func Example_once() {
	charged := 0
	pay := action.Action{
		Spec: spec.Spec{Name: "pay"},
		Handler: action.HandlerFunc(func(ctx context.Context, call *action.Call) (any, error) {
			receipt, err := action.Once(ctx, call, "charge", func(context.Context) (string, error) {
				charged++
				return "receipt for " + call.IdempotencyKey(), nil
			})
			if err != nil {
				return nil, err
			}
			if call.Attempt == 1 {
				return nil, errors.New("the mail server is unavailable")
			}
			return map[string]any{"receipt": receipt}, nil
		}),
	}
	first := actiontest.Run(context.Background(), pay, actiontest.Call{})
	second := actiontest.Run(context.Background(), pay, actiontest.Call{Attempt: 2, Memory: first.Memory})
	fmt.Println(first.Err)
	fmt.Println(second.Outputs["receipt"])
	fmt.Println("charged", charged, "time")
	// Output:
	// the mail server is unavailable
	// receipt for execution/pay
	// charged 1 time
}
