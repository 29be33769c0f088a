package main

import (
	"cmp"
	"context"

	"github.com/stepwell/stepwell/app"
)

// mostAsked bounds the approvals whose questions are still to be asked for; those beyond are shown as waiting.
const mostAsked = 100

// approvals returns the function that the view tells of steps that wait for an approval: what they ask is looked up and shown,
// with the command that decides it. Programs read it from the API.
func (s *session) approvals() func(step string) {
	if s.output == "json" {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	steps := make(chan string, mostAsked)
	s.asked = stop
	s.asking.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case step := <-steps:
				s.ask(ctx, step)
			}
		}
	})
	return func(step string) {
		select {
		case steps <- step:
		default:
		}
	}
}

// ask shows what a step asks. One that has been answered meanwhile asks nothing.
func (s *session) ask(ctx context.Context, step string) {
	id := s.tracker.Execution()
	a, err := s.client.Approval(ctx, id+"."+step)
	if err != nil {
		return // it is shown as waiting, and `stepwell approvals list` has it
	}
	s.tracker.Asks(step, a.Message, "stepwell approvals approve "+a.ID+s.database())
}

// database is where, with the data directory also where it is the usual one: commands about approvals ask a server first.
func (s *session) database() string {
	if s.where != "" || s.app == nil {
		return s.where
	}
	if s.program.settings.data == "" {
		return " --db " + s.program.settings.db
	}
	return " --data " + cmp.Or(s.program.settings.data, app.DefaultData)
}

// closeView ends the view, and what is asked for it.
func (s *session) closeView() {
	if s.asked != nil {
		s.asked()
		s.asking.Wait()
	}
	s.tracker.Close()
}
