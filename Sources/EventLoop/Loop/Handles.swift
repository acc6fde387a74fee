// Why: libuv wants a handle's memory to stay valid until its close callback, which runs a loop turn after
// uv_close(). So a handle lives on the heap, owns one reference to its Swift object through `data`, and
// both are given back in that callback, nowhere else.

import CLibuv

enum Handle {
  /// Lets the handle keep `owner` alive until it is closed.
  static func attach<T>(_ handle: UnsafeMutablePointer<T>, to owner: AnyObject) {
    base(handle).pointee.data = Unmanaged.passRetained(owner).toOpaque()
  }

  static func owner<T, Owner: AnyObject>(
    of handle: UnsafeMutablePointer<T>?, as type: Owner.Type
  ) -> Owner? {
    guard let handle, let data = base(handle).pointee.data else { return nil }
    return Unmanaged<Owner>.fromOpaque(data).takeUnretainedValue()
  }

  static func close<T>(_ handle: UnsafeMutablePointer<T>) {
    uv_close(base(handle)) { closed in
      guard let closed else { return }
      if let data = closed.pointee.data { Unmanaged<AnyObject>.fromOpaque(data).release() }
      UnsafeMutableRawPointer(closed).deallocate()
    }
  }

  private static func base<T>(_ handle: UnsafeMutablePointer<T>) -> UnsafeMutablePointer<uv_handle_t> {
    UnsafeMutableRawPointer(handle).assumingMemoryBound(to: uv_handle_t.self)
  }
}

/// Something that holds handles or sockets of a loop and must let go of them when the loop ends.
protocol LoopResource: AnyObject {
  func loopEnds()
}
