// The curve of Solana against the vectors of its standards.
import {expect, test} from 'vitest'
import {ed25519} from './ed25519.ts'

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const bytes = (text: string) => Buffer.from(text, 'hex')

/** The ed25519 vectors of SLIP-0010, except those of the roots: no branch has the key of its root. */
const vectors = [
  {
    seed: '000102030405060708090a0b0c0d0e0f',
    keys: [
      [
        [0],
        '68e0fe46dfb67e368c75379acec591dad19df3cde26e63b93a8e704f1dade7a3',
        '8c8a13df77a28f3445213a0f432fde644acaa215fc72dcdf300d5efaa85d350c',
      ],
      [
        [0, 1],
        'b1d0bad404bf35da785a64ca1ac54b2617211d2777696fbffaf208f746ae84f2',
        '1932a5270f335bed617d5b935c80aedb1a35bd9fc1e31acafd5372c30f5c1187',
      ],
      [
        [0, 1, 2],
        '92a5b23c0b8a99e37d07df3fb9966917f5d06e02ddbd909c7e184371463e9fc9',
        'ae98736566d30ed0e9d2f4486a64bc95740d89c7db33f52121f8ea8f76ff0fc1',
      ],
      [
        [0, 1, 2, 2],
        '30d1dc7e5fc04c31219ab25a27ae00b50f6fd66622f6e9c913253d6511d1e662',
        '8abae2d66361c879b900d204ad2cc4984fa2aa344dd7ddc46007329ac76c429c',
      ],
      [
        [0, 1, 2, 2, 1_000_000_000],
        '8f94d394a8e8fd6b1bc2f3f49f5c47e385281d5c17e65324b0f62483e37e8793',
        '3c24da049451555d51a7014a37337aa4e12d41e485abccfa46b47dfb2af54b7a',
      ],
    ],
  },
  {
    seed: 'fffcf9f6f3f0edeae7e4e1dedbd8d5d2cfccc9c6c3c0bdbab7b4b1aeaba8a5a29f9c999693908d8a8784817e7b7875726f6c696663605d5a5754514e4b484542',
    keys: [
      [
        [0],
        '1559eb2bbec5790b0c65d8693e4d0875b1747f4970ae8b650486ed7470845635',
        '86fab68dcb57aa196c77c5f264f215a112c22a912c10d123b0d03c3c28ef1037',
      ],
      [
        [0, 2_147_483_647],
        'ea4f5bfe8694d8bb74b7b59404632fd5968b774ed545e810de9c32a4fb4192f4',
        '5ba3b9ac6e90e83effcd25ac4e58a1365a9e35a3d3ae5eb07b9e4d90bcf7506d',
      ],
      [
        [0, 2_147_483_647, 1],
        '3757c7577170179c7868353ada796c839135b3d30554bbb74a4b1e4a5a58505c',
        '2e66aa57069c86cc18249aecf5cb5a9cebbfd6fadeab056254763874a9352b45',
      ],
      [
        [0, 2_147_483_647, 1, 2_147_483_646],
        '5837736c89570de861ebc173b1086da4f505d4adb387c6a1b1342d5e4ac9ec72',
        'e33c0f7d81d843c572275f287498e8d408654fdf0d1e065b84e2e6f157aab09b',
      ],
      [
        [0, 2_147_483_647, 1, 2_147_483_646, 2],
        '551d333177df541ad876a60ea71f00447931c0a9da16f227c11ea080d7391b8d',
        '47150c75db263559a70d5778bf36abbab30fb061ad69f69ece61a72b0cfa4fc0',
      ],
    ],
  },
] as const

test('SLIP-0010: every path has the keys of the standard, whichever of its steps is the index', () => {
  for (const {seed, keys} of vectors)
    for (const [steps, privateKey, publicKey] of keys)
      for (const [at, index] of steps.entries()) {
        const path = ['m', ...steps.map((step, n) => (n === at ? "i'" : `${step}'`))].join('/')
        const key = ed25519.branch(bytes(seed), path)(index)
        expect([hex(key), hex(ed25519.publicKey(key))]).toEqual([privateKey, publicKey])
      }
})

test('a key does not depend on the ones derived and wiped before it, nor on what becomes of the seed', () => {
  const seed = bytes(vectors[0].seed)
  const branch = ed25519.branch(seed, "m/0'/i'")
  seed.fill(0)
  const first = branch(1)
  first.fill(0)
  expect(hex(branch(1))).toBe(vectors[0].keys[1][1])
  expect(() => branch(2 ** 31)).toThrow(RangeError)
})

test('a path with a step that is not hardened, or without an index, is refused', () => {
  for (const path of ["m/44'/501'/i/0'", "m/44'/501/i'", "m/44'/501'", "44'/i'", "m/i'/i'", 'm', ''])
    expect(() => ed25519.branch(bytes(vectors[0].seed), path)).toThrow('hardened')
})

// The first three tests of section 7.1, and the one over a hash.
test.each([
  [
    '9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60',
    'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
    '',
    'e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b',
  ],
  [
    '4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb',
    '3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c',
    '72',
    '92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00',
  ],
  [
    'c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7',
    'fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025',
    'af82',
    '6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a',
  ],
  [
    '833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42',
    'ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf',
    'ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f',
    'dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704',
  ],
])(
  'RFC 8032: the key %s has the public key and the signature of the standard',
  (key, publicKey, message, signature) => {
    expect(hex(ed25519.publicKey(bytes(key)))).toBe(publicKey)
    expect(hex(ed25519.sign(bytes(key), bytes(message)))).toBe(signature)
  },
)
