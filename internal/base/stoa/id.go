package stoa

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"time"
)

// idText is lower-case base32 in an alphabet whose order is the order of the
// bytes, so that identifiers of one kind sort by the time of their creation.
var idText = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// NewID returns a new identifier: the prefix, an underscore and a version 7 UUID
// (RFC 9562) in 26 characters. The prefix names the kind: acc, key, resp, msg,
// req, spc, agt, ses, trn, inp, fil, tsk, run, emu, ems, led, cal, clm, per, inv, pay.
func NewID(prefix string) string {
	var u [16]byte
	rand.Read(u[6:]) // rand.Read never fails (crypto/rand)
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli()))
	copy(u[:6], ms[2:])
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	b := make([]byte, 0, len(prefix)+27)
	b = append(b, prefix...)
	b = append(b, '_')
	return string(idText.AppendEncode(b, u[:]))
}

// IsID reports whether s has the form of an identifier with that prefix.
func IsID(prefix, s string) bool {
	rest, ok := strings.CutPrefix(s, prefix+"_")
	if !ok || len(rest) != 26 {
		return false
	}
	_, err := idText.DecodeString(rest)
	return err == nil
}
