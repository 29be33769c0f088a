package secret

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// StoredKey is a key of 32 bytes that the store keeps, sealed, as the object of this kind and id. It is made when there
// is none, and stays the same for good: it is sealed anew when the first master key is another one. CodeInternal when
// it cannot be opened.
func StoredKey(ctx context.Context, s store.Objects, k *Keyring, kind, id string) ([]byte, error) {
	for range 2 { // another process may make it meanwhile
		o, err := s.Object(ctx, kind, id)
		if err == nil {
			return readStored(ctx, s, k, o)
		}
		if stepwell.CodeOf(err) != stepwell.CodeNotFound {
			return nil, err
		}
		key := make([]byte, keySize)
		rand.Read(key) // never fails
		if err := putStored(ctx, s, k, store.Object{Kind: kind, ID: id}, key); err != nil {
			return nil, err
		}
	}
	return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the " + id + " is neither there nor can be made"}
}

// CheckStored reports an error where the key is there and the master keys do not open it. It changes nothing.
func CheckStored(ctx context.Context, s store.Objects, k *Keyring, kind, id string) error {
	o, err := s.Object(ctx, kind, id)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return nil
	}
	var sealed []byte
	if err == nil {
		err = json.Unmarshal(o.Body, &sealed)
	}
	if err == nil {
		_, err = k.Open(sealed, id)
	}
	return err
}

// readStored opens the key, and seals it anew when the master key has changed.
func readStored(ctx context.Context, s store.Objects, k *Keyring, o *store.Object) ([]byte, error) {
	var sealed []byte
	if err := json.Unmarshal(o.Body, &sealed); err != nil {
		return nil, fmt.Errorf("the %s: %w", o.ID, err)
	}
	key, err := k.Open(sealed, o.ID)
	if err != nil || k.Current(sealed) {
		return key, err
	}
	return key, putStored(ctx, s, k, store.Object{Kind: o.Kind, ID: o.ID, Revision: o.Revision}, key)
}

// putStored writes the key, unless another process was faster.
func putStored(ctx context.Context, s store.Objects, k *Keyring, o store.Object, key []byte) (err error) {
	sealed, err := k.Seal(key, o.ID)
	if err != nil {
		return err
	}
	if o.Body, err = json.Marshal(sealed); err != nil {
		return err
	}
	if _, err = s.PutObjects(ctx, o); stepwell.CodeOf(err) == stepwell.CodeConflict {
		return nil
	}
	return err
}

// CheckStore opens the server's own sealed values in a store: its keys and the secrets. It changes nothing.
// *BrokenError names those that the master keys do not open; sealed reports whether there are any.
func CheckStore(ctx context.Context, s store.Objects, k *Keyring) (sealed bool, err error) {
	own, err := s.Objects(ctx, store.ObjectFilter{Kind: objectServer, Limit: 100})
	if err != nil {
		return false, err
	}
	wrong := &BrokenError{}
	for i := range own {
		var body []byte
		err := json.Unmarshal(own[i].Body, &body)
		if err == nil {
			_, err = k.Open(body, own[i].ID)
		}
		if err != nil {
			wrong.Names, wrong.Err = append(wrong.Names, "the "+own[i].ID), err
		}
	}
	v := NewVault(s, k, NewRedactor())
	err = v.Load(ctx)
	if broken, ok := errors.AsType[*BrokenError](err); ok {
		wrong.Names, wrong.Err = append(wrong.Names, broken.Names...), broken.Err
	} else if err != nil {
		return false, err
	}
	if wrong.Err != nil {
		return true, wrong
	}
	return len(own) > 0 || len(v.Names()) > 0, nil
}
