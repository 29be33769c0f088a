package store

import "context"

// Seat is the membership of an execution in a concurrency key (settings.concurrency), shared by all processes of a store.
type Seat struct {
	Key       string
	Execution int64
	ID        string
	Owner     int64 // process that runs it
	Priority  int
	Slots     int // of the key, as the execution's pipeline says
	Sitting   bool
}

// Seats are the slots of concurrency keys. The methods are safe for concurrent use, from many processes; those that change a
// key follow one another.
type Seats interface {
	// Enter makes an execution a member; one that is a member gets the owner, and keeps its slot. With list it returns the other members,
	// by number; without, the cost does not depend on how many there are.
	Enter(ctx context.Context, s Seat, list bool) ([]Seat, error)
	// Sit reports whether a member has a slot now. A free one goes to the first of those that wait: higher priority first, then the
	// lower number. One that has none waits from now on. A member of another owner, or none, gets nothing.
	Sit(ctx context.Context, s Seat) (bool, error)
	// Rise ends the membership of an execution if its owner is still the same; one that another process runs by now becomes that one's,
	// with its slot. Twice is harmless.
	Rise(ctx context.Context, s Seat) error
	// Seated lists the members of a key by number.
	Seated(ctx context.Context, key string) ([]Seat, error)
	// SeatsOf lists an owner's members, of all keys, up to limit.
	SeatsOf(ctx context.Context, owner int64, limit int) ([]Seat, error)
	// Vacant lists the keys of an owner's waiting members that have a free slot for one of them, or have got one from a former owner, up
	// to limit. It ends the memberships of executions that have ended, or never began, whose owner is dead.
	Vacant(ctx context.Context, owner int64, limit int) ([]string, error)
}
