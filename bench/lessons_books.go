package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/store"
)

// lessonSteps are the steps of a run, in order.
var lessonSteps = []string{"transcribe", "outline", "summary", "glossary", "quiz"}

// lessonPause is how long the service takes for an answer.
const lessonPause = 200 * time.Millisecond

// soundName is the file of every lesson.
const soundName = "lesson.mp3"

// soundOf is the content of a lesson's file.
func soundOf(lesson string) string { return "the sound of " + lesson }

// lessonsDocument is a pipeline whose steps each ask the service about the answer to the step before.
func lessonsDocument(name string) string {
	var doc strings.Builder
	fmt.Fprintf(&doc, "name: %s\nsettings: {sequential: true}\nparameters: [{name: service, type: string}]\nsteps:\n", name)
	for i, step := range lessonSteps {
		url := "{{ params.service }}/{{ lesson.id }}/" + step
		if i == 0 {
			fmt.Fprintf(&doc, "  - {id: %s, action: ai.transcribe, source: media, params: {url: %q, model: m, file: '{{ source.path }}'}}\n", step, url)
		} else {
			fmt.Fprintf(&doc, "  - {id: %s, action: ai.chat, params: {url: %q, model: m, prompt: '{{ source }}'}}\n", step, url)
		}
	}
	return doc.String()
}

// receipt is a request that the service has had: with which answer of the step before, and the answer that no other request gets.
type receipt struct{ given, answer string }

// lessonService stands for the service of models, and keeps a ledger of what it was asked.
type lessonService struct {
	server http.Server
	url    string
	ended  chan error

	mu     sync.Mutex
	ledger map[string][]receipt // by lesson and step
	asked  int
	wrong  []string // requests that are not as they should be
}

func newLessonService() (*lessonService, error) {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &lessonService{url: "http://" + at.Addr().String(), ended: make(chan error, 1), ledger: map[string][]receipt{}}
	s.server.Handler = http.HandlerFunc(s.answer)
	go func() { s.ended <- s.server.Serve(at) }()
	return s, nil
}

// Close ends the service.
func (s *lessonService) Close() error {
	err := s.server.Close()
	if ended := <-s.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

func (s *lessonService) answer(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(r.URL.Path, "/") // "", lesson, step, and what the action adds
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil || len(path) < 4 {
		return // the worker was killed while it asked
	}
	answer := s.enter(path[1], path[2], body)
	select {
	case <-r.Context().Done(): // the worker was killed
		return
	case <-time.After(lessonPause):
	}
	w.Header().Set("Content-Type", "application/json")
	out := map[string]any{"text": answer}
	if path[2] != lessonSteps[0] {
		out = map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": answer}, "finish_reason": "stop"}}}
	}
	_ = json.NewEncoder(w).Encode(out) // whoever is not answered asks again
}

// enter enters a request in the ledger, and gives its answer.
func (s *lessonService) enter(lesson, step string, body []byte) string {
	var in struct{ Messages []struct{ Content string } }
	given := soundOf(lesson)
	ok := step == lessonSteps[0] && bytes.Contains(body, []byte(given))
	if step != lessonSteps[0] {
		if ok = json.Unmarshal(body, &in) == nil && len(in.Messages) == 1; ok {
			given = in.Messages[0].Content
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if !ok && len(s.wrong) < maxWrong {
		s.wrong = append(s.wrong, fmt.Sprintf("%s of %s was asked for with %.200q", step, lesson, body))
	}
	answer := fmt.Sprintf("%s %s %d", lesson, step, s.asked)
	s.ledger[lesson+" "+step] = append(s.ledger[lesson+" "+step], receipt{given, answer})
	return answer
}

// maxWrong bounds how much of what is wrong is told.
const maxWrong = 20

// check compares the step logs and the results of the runs with the ledger of the service: each run is done, each of its steps has
// completed once, with an answer that it was given, and every request of the step after it was about that answer.
func (l *lessonsLoad) check(db string, r *lessonsResult) (err error) {
	reader, err := app.OpenReader(l.ctx, db, slog.Default())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	s := l.service
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Requests = s.asked
	wrong := slices.Clone(s.wrong)
	for i := range l.n {
		found, err := l.checkLesson(l.ctx, reader, l.lesson(i), r)
		if err != nil {
			return err
		}
		wrong = append(wrong, found...)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d things are wrong:\n%s", len(wrong), strings.Join(wrong[:min(len(wrong), maxWrong)], "\n"))
	}
	return nil
}

// checkLesson says what is wrong with the run of a lesson.
func (l *lessonsLoad) checkLesson(ctx context.Context, reader store.Reader, lesson string, r *lessonsResult) (wrong []string, err error) {
	list, err := reader.Executions(ctx, store.Filter{Lesson: lesson})
	if err != nil || len(list) != 1 {
		return []string{fmt.Sprintf("%s has %d runs", lesson, len(list))}, err
	}
	completed, err := countCompleted(ctx, reader, list[0].No, r)
	if err != nil {
		return nil, err
	}
	run, err := l.servers[0].api.Run(ctx, list[0].ID)
	if err != nil {
		return nil, err
	}
	if run.Status != "done" || len(run.Steps) != len(lessonSteps) {
		return []string{fmt.Sprintf("%s is %s: %s", lesson, run.Status, run.State.Message)}, nil
	}
	given := soundOf(lesson)
	for i, step := range lessonSteps {
		var answer string
		if raw := run.Steps[i].Result; run.Steps[i].Key != step || raw == nil || json.Unmarshal(*raw, &answer) != nil {
			wrong = append(wrong, fmt.Sprintf("%s has no result of %s", lesson, step))
		}
		if n := completed[step]; n != 1 {
			wrong = append(wrong, fmt.Sprintf("%s of %s has completed %d times", step, lesson, n))
		}
		asked := l.service.ledger[lesson+" "+step]
		if !slices.ContainsFunc(asked, func(x receipt) bool { return x.answer == answer }) {
			wrong = append(wrong, fmt.Sprintf("the result of %s of %s is %q, which the service has not answered", step, lesson, answer))
		}
		if slices.ContainsFunc(asked, func(x receipt) bool { return x.given != given }) {
			wrong = append(wrong, fmt.Sprintf("%s of %s was asked for with something else than %q: %v", step, lesson, given, asked))
		}
		given = answer
	}
	return wrong, nil
}

// countCompleted counts the completions of each step in the step log of a run, and adds its attempts.
func countCompleted(ctx context.Context, reader store.Reader, no int64, r *lessonsResult) (map[string]int, error) {
	const most = 1000
	completed := map[string]int{}
	for after := int64(0); ; {
		events, err := reader.Events(ctx, no, after, most)
		if err != nil {
			return nil, err
		}
		for i := range events {
			switch e := &events[i]; {
			case e.Type == "started" && e.StepKey != "":
				r.Attempts++
			case e.Type == "completed" && e.StepKey != "":
				completed[e.StepKey]++
			}
		}
		if len(events) < most {
			return completed, nil
		}
		after = events[len(events)-1].Version
	}
}
