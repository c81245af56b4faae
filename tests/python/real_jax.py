"""The module with JAX itself, on a GPU where there is one.

    KILN_LIBRARY=libkiln.so PYTHONPATH=tools/python python3 tests/python/real_jax.py"""

import jax
import jax.numpy as jnp

import kiln


def must(truth, what):
    if not truth:
        raise SystemExit(f"wrong: {what}")


def refused(words, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except TypeError as error:
        must(words in str(error), error)
    else:
        raise SystemExit(f"not refused: {words}")


def main():
    x, y = jax.random.normal(jax.random.key(1), (2, 30, 20))
    add = kiln.op("x + y")
    for _ in range(3):
        must(jnp.array_equal(add(x, y), x + y), "x + y")
    must(add(x, y).device == x.device, "the device")
    must(jnp.allclose(kiln.op("softmax(x * y)")(x, y[0]), jax.nn.softmax(x * y[0]), atol=1e-6), "softmax")
    half = x.astype(jnp.bfloat16)
    must(kiln.op("gelu")(half).dtype == jnp.bfloat16, "bfloat16")
    must(jnp.array_equal(kiln.op("sum(x) axis=all")(jnp.ones((4, 5))), 20), "a sum of all")
    want = jax.grad(lambda x, y: (jax.nn.softmax(x * y) * y).sum(), (0, 1))(x, y[0])
    got = kiln.op("softmax(x * y) * y").gradients(x, y[0])
    must(all(jnp.allclose(a, b, atol=1e-5) for a, b in zip(got, want)), "gradients")
    refused("JAX has with jax_enable_x64 alone", kiln.op("argmax(x)"), x)
    refused("arrays of JAX do not change", add, x, y, out=x)
    refused("within jax.jit or jax.grad there are none", jax.jit(add), x, y)
    print("all of it is right")


if __name__ == "__main__":
    main()
