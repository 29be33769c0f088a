package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/sim"
)

// The files of a run whose process is really killed.
const (
	jobFile     = "job.json"     // Job
	outsideFile = "outside.json" // testimony: what the killed process leaves
	toldFile    = "told.json"    // told: what came of it
	stepsFolder = "steps"        // where steps run that really do
)

// Job says what a process of a killed run does.
type Job struct {
	File     string `json:"file"` // of the test
	Line     int    `json:"line"`
	Name     string `json:"name"`
	Schedule string `json:"schedule"` // ends the first process
}

// ReadJob reads what the process that runs in a folder is to do.
func ReadJob(dir string) (j Job, err error) {
	return j, readJSON(filepath.Join(dir, jobFile), &j)
}

// Is reports whether a test is the job's.
func (j *Job) Is(t *scenario.Test) bool {
	return t.File == j.File && t.Pos.Line == j.Line && t.Name == j.Name
}

// testimony is what outlives the process, and what the book needs to know of its time.
type testimony struct {
	Outside json.RawMessage `json:"outside"`
	Begun   []witnessed     `json:"begun"`
	Once    map[string]bool `json:"once"`
}

type witnessed struct {
	Key   string
	Epoch uint32
}

// told is a verdict as JSON.
type told struct {
	Broken    map[string]string `json:"broken"`
	Different string            `json:"different"`
	Person    string            `json:"person"`
	Twice     []string          `json:"twice"`
	Story     []string          `json:"story"`
}

// Life is a process of a killed run: the first one ends at the point that its job says, by a signal that it sends itself; the second
// one takes over, and writes down what came of it. Store must be set.
func (l *Lab) Life(ctx context.Context, t *scenario.Test, dir string) error {
	job, err := ReadJob(dir)
	if err != nil {
		return err
	}
	s, err := parseSchedule(job.Schedule)
	if err != nil {
		return err
	}
	var before testimony
	err = readJSON(filepath.Join(dir, outsideFile), &before)
	if errors.Is(err, fs.ErrNotExist) {
		return l.first(ctx, t, dir, s)
	}
	if err != nil {
		return err
	}
	x := &experiment{Lab: l, t: t}
	if _, err := x.undisturbed(ctx); err != nil {
		return err
	}
	b := newBook(&records{})
	for _, one := range before.Begun {
		b.begun = append(b.begun, begun{one.Key, one.Epoch})
	}
	b.once = before.Once
	got, err := l.runners[0].Play(ctx, t, scenario.How{Trace: b.trace, Calm: x.calm, Outside: before.Outside, Store: l.o.Store(dir), Folder: filepath.Join(dir, stepsFolder)})
	if err != nil {
		return errors.Join(writeJSON(filepath.Join(dir, toldFile), told{Different: "it could not be run: " + err.Error()}), x.calm.World.Close())
	}
	v, err := judgeKilled(ctx, b, got, x.calm)
	if err == nil {
		err = writeJSON(filepath.Join(dir, toldFile), told{v.broken, v.different, v.person, v.twice, story(ctx, got)})
	}
	return errors.Join(err, got.World.Close(), x.calm.World.Close())
}

// judgeKilled leaves out the rules for which one has to have seen both processes.
func judgeKilled(ctx context.Context, b *book, got, calm *scenario.Played) (*verdict, error) {
	b.broken = map[string]string{}
	if err := b.folds(ctx, got); err != nil {
		return nil, err
	}
	return compare(b, schedule{}, got, calm), nil
}

// first runs until the process is killed.
func (l *Lab) first(ctx context.Context, t *scenario.Test, dir string, s schedule) error {
	steps := filepath.Join(dir, stepsFolder)
	if err := os.MkdirAll(steps, 0o755); err != nil {
		return err
	}
	b := newBook(&records{})
	got, err := l.runners[0].Play(ctx, t, scenario.How{Trace: b.trace, Fault: s.fate, Store: l.o.Store(dir), Folder: steps, Killed: func(outside []byte) error {
		left := testimony{Outside: outside, Once: b.once}
		for _, one := range b.begun {
			left.Begun = append(left.Begun, witnessed{one.key, one.epoch})
		}
		err := writeJSON(filepath.Join(dir, outsideFile), left)
		if err == nil {
			err = kill()
		}
		return err
	}})
	if err != nil {
		return err
	}
	return errors.Join(fmt.Errorf("the process was not killed: nothing passed %s", s), got.World.Close())
}

// kill ends this process as the system does when memory is short.
func kill() error {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err == nil {
		time.Sleep(time.Minute) // the signal is on its way
		err = errors.New("the process could not be killed")
	}
	return err
}

// kills are the single crashes in an order of the seed's, so that a budget that ends early has seen some of all kinds.
func (x *experiment) kills() (list []schedule) {
	all, _ := singles(x.passages)
	for _, s := range all {
		if s.faults[0].fate == sim.Dies {
			list = append(list, s)
		}
	}
	rand.New(rand.NewPCG(x.o.Seed, 2)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// killed runs a schedule in two processes.
func (x *experiment) killed(ctx context.Context, s schedule) (*verdict, error) {
	dir, err := os.MkdirTemp("", "stepwell-lab-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // what cannot be deleted stays in the system's folder for temporary files
	if err := writeJSON(filepath.Join(dir, jobFile), Job{File: x.t.File, Line: x.t.Pos.Line, Name: x.t.Name, Schedule: s.String()}); err != nil {
		return nil, err
	}
	var said string
	for _, file := range []string{outsideFile, toldFile} {
		if said, err = x.o.Process(ctx, dir); err != nil {
			return nil, err
		}
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			return nil, stepwell.Errorf(stepwell.CodeInternal, "", "a process of the lab has ended without what it was to do: %s", stepwell.Clip(said, 2000))
		}
	}
	var got told
	if err := readJSON(filepath.Join(dir, toldFile), &got); err != nil {
		return nil, err
	}
	return &verdict{broken: got.Broken, different: got.Different, person: got.Person, twice: got.Twice, story: got.Story}, nil
}

func writeJSON(file string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(file, raw, 0o600)
}

func readJSON(file string, v any) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}
