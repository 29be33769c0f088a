package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell/store"
)

var _ store.Notifier = (*Store)(nil)

// sqlNotify announces the topic $1 on the channel of this database ($2). It waits for the other transactions that announce something, so no
// commit of executions does.
const sqlNotify = `SELECT pg_notify($2, $1)`

// The pauses between tries of a lost connection that listens.
const (
	listenPause    = time.Second
	maxListenPause = 30 * time.Second
)

func (s *Store) channel() string { return "stepwell_" + s.id }

// announce tells the processes that listen. It loses nothing where it fails: they look as well.
func (s *Store) announce(ctx context.Context, topic string) {
	if s.listening == nil {
		return
	}
	if _, err := s.pool.Exec(ctx, sqlNotify, topic, s.channel()); err != nil {
		s.o.Log.Debug("others are not told, and look", "topic", topic, "error", err)
	}
}

// announceIn is announce at the commit of a transaction.
func (s *Store) announceIn(ctx context.Context, tx pgx.Tx, topic string) error {
	if s.listening == nil {
		return nil
	}
	_, err := tx.Exec(ctx, sqlNotify, topic, s.channel())
	return err
}

// Listen implements store.Notifier, on a connection of its own: to the database's address, or to listen_url where that leads to a pooler, which has
// no notifications. Without either it returns at once.
func (s *Store) Listen(ctx context.Context, heard func(topic string)) {
	if s.listening == nil {
		return
	}
	for pause := listenPause; ; pause = min(2*pause, maxListenPause) {
		err := s.listen(ctx, func(topic string) {
			if topic == "" {
				pause = listenPause
			}
			if topic == store.TopicRequests || topic == "" {
				select {
				case s.requested <- struct{}{}:
				default:
				}
			}
			heard(topic)
		})
		if ctx.Err() != nil {
			return
		}
		s.o.Log.Warn("what other processes announce is not heard for now: this one looks once a second", "error", fault("listen", err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (s *Store) listen(ctx context.Context, heard func(topic string)) error {
	conn, err := pgx.ConnectConfig(ctx, s.listening)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(closing) // it may be lost
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{s.channel()}.Sanitize()); err != nil {
		return err
	}
	s.hears.Store(true)
	defer s.hears.Store(false)
	heard("") // of what was before, nobody has told
	for {
		waiting, cancel := context.WithTimeout(ctx, listenCheck)
		n, err := conn.WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil:
			heard(n.Payload)
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return err
		default: // is anybody there?
			checking, cancel := context.WithTimeout(ctx, connectTimeout)
			err := conn.Ping(checking)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}

// listenCheck is after which silence a connection that listens is tried.
const listenCheck = 30 * time.Second
