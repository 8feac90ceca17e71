//go:build !linux

package listen

import "net"

func boundUnread(net.Conn) {}
