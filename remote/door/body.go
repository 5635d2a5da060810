// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package door

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	// maxBody is one byte more than the handlers of reviews accept, so that they report the excess.
	maxBody = 7<<20 + 1
	// A body gets room in pieces: a small one, which most reviews fit in, and then larger ones.
	smallPiece, largePiece = 16 << 10, 128 << 10
)

// largePieces are large pieces that are free.
var largePieces = sync.Pool{New: func() any { return new([largePiece]byte) }}

// body is what has arrived of a request.
type body struct {
	small []byte
	large []*[largePiece]byte
	size  int
}

// room returns where the next bytes go; nothing if a piece is needed for them.
func (b *body) room() []byte {
	if b.size < len(b.small) {
		return b.small[b.size:]
	}
	at := b.size - len(b.small)
	if at == len(b.large)*largePiece {
		return nil
	}
	return b.large[at/largePiece][at%largePiece:]
}

// grow adds a piece.
func (b *body) grow() {
	if b.small == nil {
		b.small = make([]byte, smallPiece)
		return
	}
	b.large = append(b.large, largePieces.Get().(*[largePiece]byte))
}

// next returns the size of the piece that grow adds.
func (b *body) next() int64 {
	if b.small == nil {
		return smallPiece
	}
	return largePiece
}

// reader returns a reader of what has arrived.
func (b *body) reader() io.Reader {
	readers := []io.Reader{bytes.NewReader(b.small[:min(b.size, len(b.small))])}
	rest := b.size - len(b.small)
	for _, piece := range b.large {
		readers = append(readers, bytes.NewReader(piece[:min(rest, largePiece)]))
		rest -= largePiece
	}
	return io.MultiReader(readers...)
}

// free gives back the pieces, and returns their size.
func (b *body) free() (size int64) {
	size = int64(len(b.small) + len(b.large)*largePiece)
	for _, piece := range b.large {
		largePieces.Put(piece)
	}
	*b = body{}
	return size
}

// past is a deadline in the past, which ends a read or write at once.
var past = time.Unix(1, 0)

// errGone is the error of a request that has given way to others.
var errGone = errors.New("too many requests at a time: this one has given way")

// receive reads the body of a request until it is whole.
func (d *Door) receive(q *request, r *http.Request, b *body) (err error) {
	defer func() {
		if err != nil { // the server isn't to wait for the rest
			_ = q.control.SetReadDeadline(past)
		}
	}()
	for begin := time.Now(); b.size < maxBody; {
		if b.room() == nil {
			if !d.requests.take(&q.member, b.next()) {
				return errGone
			}
			b.grow()
		}
		slow := begin.Add(d.limits.silence + time.Duration(b.size)*time.Second/d.limits.rate)
		if silent := time.Now().Add(d.limits.silence); silent.Before(slow) {
			slow = silent
		}
		if err := q.control.SetReadDeadline(slow); err != nil {
			return err
		}
		// The deadline of what has given way before is lost now.
		if !d.requests.holds(&q.member) {
			return errGone
		}
		n, err := r.Body.Read(b.room())
		b.size += n
		switch {
		case errors.Is(err, io.EOF):
			return q.control.SetReadDeadline(time.Time{})
		case err != nil && !d.requests.holds(&q.member):
			return errGone
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errSlow
		case err != nil:
			return err
		}
	}
	return nil
}

// errSlow is the error of a request that takes too long to arrive.
var errSlow = errors.New("the body of the request arrives too slowly")
