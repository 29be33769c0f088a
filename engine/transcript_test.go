package engine

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// TestTranscripts plays testdata/*.txt. A stanza is commands, one batch of events, then ---- and the effects.
// `pipeline` begins a new execution of the document that follows. After every stanza the recorded batches must give
// the same state again.
func TestTranscripts(t *testing.T) {
	var keep recorder
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(src), keep.add)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(src) {
				t.Errorf("%s: %s\n(rewrite with -update)", file, firstDifference(string(src), got))
			}
		})
	}
	keep.write(t)
}

// play runs a transcript and returns it with the answers that were given now. record is told of every run that is over.
func play(t *testing.T, src string, record func(*harness)) string {
	var out strings.Builder
	var h *harness
	lines := strings.Split(strings.TrimRight(src, "\n"), "\n")
	for i := 0; i < len(lines); {
		if line := lines[i]; line == "" || strings.HasPrefix(line, "#") {
			fmt.Fprintln(&out, line)
			i++
			continue
		}
		var commands []string
		for ; i < len(lines) && lines[i] != "----"; i++ {
			commands = append(commands, lines[i])
			fmt.Fprintln(&out, lines[i])
		}
		for i++; i < len(lines) && lines[i] != "" && !strings.HasPrefix(lines[i], "#"); i++ {
		}
		fmt.Fprintln(&out, "----")
		if commands[0] == "pipeline" {
			if h != nil {
				record(h)
			}
			doc := "name: test\n" + strings.Join(commands[1:], "\n")
			h = newHarness(t, compile(t, doc))
			h.doc, h.record = doc, record
			continue
		}
		answer := h.script(commands)
		h.sameAfterReplay()
		if strings.TrimSpace(answer) == "" {
			answer = "(nothing)\n"
		}
		out.WriteString(trimLines(answer))
	}
	if h != nil {
		record(h)
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
